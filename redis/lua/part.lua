-- Brings the token buckets of one key to the present and charges them: fills f
-- from its fourth field on, and full; clears fits if a cost does not fit. It
-- is included where it is needed, as a call would cost too much.
local full, at = 0, 3 + 10 * n
for d = 1, n do
	local cost = read('<d', arg, 10 * d - 5) * charge
	local a, b, _, _, amount, period, capacity = read('<BBBBddd', arg, at)
	at = at + 2 + a + b
	local used, rem, time, consumed = 0, 0, now, 0
	if raw then
		used, rem, time, consumed = read('<dddd', raw, 32 * d - 21)
		--include refill
	end
	used = used + cost
	fits = fits and used <= capacity
	f[4 * d], f[4 * d + 1], f[4 * d + 2], f[4 * d + 3] = used, rem, time, min(consumed + cost, 2 ^ 53 - 1)
	full = max(full, time + used / amount * period)
end
