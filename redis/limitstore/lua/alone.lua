-- A plain take of one key with up to three token buckets that have no holds
-- and the same limits as before, which most are. It is decided right here, in
-- straight lines, because setting up what others need costs as much as a take.
-- What costs most here is making strings and tables: there are as few as can
-- be.
local one = ARGV[1]
local flags, count = byte(one, 1, 2)
local tried = flags == LAST + SIMPLE and count <= 3
if tried then
	local key, refusing = KEYS[1], false
	testing = ARGV[2]
	if testing then
		now = read('<d', testing)
	else
		local t = call('TIME')
		now = t[1] * 1000000 + t[2]
	end
	raw = call('GET', key)
	local lives, full, state, digest = 0, nil, nil, nil
	if count == 1 then
		--include straight 1
	elseif count == 2 then
		--include straight 2
	else
		--include straight 3
	end
	if full then
		if full <= lives then
			call('SETRANGE', key, '18', state)
		else
			if full > now + 4503599627370496 then -- 2^52
				full = now + 4503599627370496
			end
			lives = full + (full - now) / 4 + 1000000
			call('SET', key, write('<BddB', VERSION, lives, digest, count) .. state .. string.sub(one, 11 + 10 * count),
				'PX', testing and '3600000' or string.format('%d', (lives - now) / 1000 + 2))
		end
	end
	if state then
		return state
	end
end
