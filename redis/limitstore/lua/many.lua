-- Decides on a key of more token buckets than there are straight lines for.
local digest, s, at = read('<d', arg, 3 + 2 * n), states[k], 2
if before then
	simple = before == arg or read('<d', before, 3 + 2 * n) == digest
else
	args[k], lives[k] = arg, 0
	if raw then
		simple = #raw == #arg + 9 + 22 * n and byte(raw) == VERSION and read('<d', raw, 10) == digest
		lives[k] = simple and read('<d', raw, 2) or 0
	end
end
if raw and not s then
	s, at = raw, 20
end
if simple then
	local f, g, fits, due = {ALLOWED}, {REFUSED}, not refusing, 0
	for d = 1, n do
		local cost, amount, period, capacity = read('<d', arg, 3 + 2 * n + 8 * d), read('<ddd', arg, 24 * d + 10 * n - 13)
		local used, rem, time, consumed = 0, 0, now, 0
		if s then
			used, rem, time, consumed, at = read('<dddd', s, at)
			--include refill
			simple = simple and time <= now
		end
		g[4 * d - 2], g[4 * d - 1], g[4 * d], g[4 * d + 1] = used, rem, time, consumed
		if used == 0 then -- full means absent
			consumed = 0
		end
		used = used + cost
		f[4 * d - 2], f[4 * d - 1], f[4 * d], f[4 * d + 1] = used, rem, time, min(consumed + cost, 2 ^ 53 - 1)
		fits = fits and used <= capacity
		due = max(due, time + used / amount * period)
	end
	if simple then
		state = write('<B' .. string.rep('dddd', n), unpack(fits and f or g))
		full = fits and due or nil
	end
end
