-- A plain take of one key with up to three token buckets that have no holds
-- and the same limits as before, which most are. It is decided right here,
-- because setting up what others need costs as much as a take.
local one = ARGV[1]
local flags, count = byte(one, 1, 2)
local tried = flags == LAST + SIMPLE and count <= 3
if tried then
	local key = KEYS[1]
	testing = ARGV[2]
	if testing then
		now = read('<d', testing)
	else
		local t = call('TIME')
		now = t[1] * 1000000 + t[2]
	end
	raw = call('GET', key)
	local state, full, lives = decide(now, count, one, raw, nil, false)
	if full then
		if full <= lives then
			call('SETRANGE', key, '18', state)
		else
			if full > now + 4503599627370496 then -- 2^52
				full = now + 4503599627370496
			end
			lives = full + (full - now) / 4 + 1000000
			call('SET', key, write('<BddB', VERSION, lives, read('<d', one, 3 + 2 * count), count) .. state .. string.sub(one, 11 + 10 * count),
				'PX', testing and '3600000' or string.format('%d', (lives - now) / 1000 + 2))
		end
	end
	if state then
		return state
	end
end
