-- What is left of a call once its plain takes are decided, from here on in a
-- function of its own (script.go).
local sub, floor, ceil, max, min = string.sub, math.floor, math.ceil, math.max, math.min

-- sluice.Algorithm
local TOKENS, SLIDING, FIXED, CONCURRENCY = 0, 1, 2, 3

if lone then -- a take that was left, as if it had a header
	header, raws = '\16\0\0\0\0\0\0\0\0\1\1', {raws}
	args, lives, states, fulls, out = {}, {}, {}, {}, {}
end
local kind = byte(header) - PLAIN

-- keepFor is how long a key is to live, in milliseconds. It is rounded up, and
-- one more because the server counts in whole milliseconds. A key that should
-- be gone is, soon.
local function keepFor(till)
	return testing and '3600000' or string.format('%d', max(1, min(till - now, 2 ^ 52 * 1.25) / 1000 + 2))
end

-- later is until when a key is to live that is needed until full.
local function later(full)
	full = min(full, now + 2 ^ 52)
	return full + (full - now) / 4 + 1000000
end

-- whole is the new value of a key that has changed.
local function whole(k)
	local arg, state = args[k], states[k]
	local n = (#state - 1) / 32
	local digest = read('<d', arg, 3 + 2 * n)
	if fulls[k] > lives[k] then
		lives[k] = later(fulls[k])
	end
	return write('<BddB', VERSION, lives[k], digest, n) .. state .. sub(arg, 11 + 10 * n)
end

-- All writing comes last: an error before it proves that nothing happened.
if plain and first > last then
	for k, state in pairs(states) do
		if fulls[k] <= lives[k] then
			call('SETRANGE', KEYS[k], '18', state)
		else
			local value = whole(k)
			call('SET', KEYS[k], value, 'PX', keepFor(lives[k]))
		end
	end
	return table.concat(out, '', 1, outs)
end

local changed = {} -- which keys have changed
for k in pairs(states) do
	raws[k], changed[k] = whole(k), true
end
for i = outs + 1, #out do
	out[i] = nil
end
