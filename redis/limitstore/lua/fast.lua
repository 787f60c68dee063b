-- All others, to the end of main.lua. They have a function of their own, because
-- one with many locals costs even those who return before they come to them.
local function others()

local sub, floor, ceil, max, min = string.sub, math.floor, math.ceil, math.max, math.min

-- sluice.Algorithm
local TOKENS, SLIDING, FIXED, CONCURRENCY = 0, 1, 2, 3

-- What follows is for calls with a header; a lone take gets one. raws is what
-- the keys hold, false if nothing. It changes as the call goes on; what has
-- changed is written in the end.
local header, raws = one, nil
if flags < PLAIN then
	header = '\16\0\0\0\0\0\0\0\0\1\1'
	testing = ARGV[2]
else
	now = read('<d', header, 2)
	testing = now ~= 0
end
if tried then
	raws = {raw}
else
	if flags < PLAIN and testing then
		now = read('<d', testing)
	elseif not testing then
		local t = call('TIME')
		now = t[1] * 1000000 + t[2]
	end
	if #KEYS == 1 then
		raws = {call('GET', KEYS[1])}
	else
		raws = call('MGET', unpack(KEYS))
	end
end
local kind = byte(header) - PLAIN
local plain = kind == 0

-- Plain takes, one after the other, each deciding on what those before it left.
-- Most are as simple as those decided above, but may be of several keys each.
-- The first take that is not so simple, and all after it, are left to the
-- general case.
--
-- Of the keys looked at: an argument with their limits; until when they live;
-- and if they have changed, the new states and when they are full. Tables that
-- are made with room need not grow so often, which costs a lot.
local args, lives = {nil, nil, nil, nil}, {nil, nil, nil, nil}
local states, fulls = {nil, nil, nil, nil}, {nil, nil, nil, nil}
local out, outs = {nil, nil, nil, nil}, 0 -- replies
local first, last = 2, #ARGV -- the arguments, or for plain takes the parts, not done yet
if plain then
	first, last = 1, (#header - 9) / 2
end

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

local simple, previous, dues = plain and not tried, nil, {nil, nil, nil, nil}
local digest, cost1, cost2, cost3 -- what the previous argument says
local amount1, period1, capacity1, amount2, period2, capacity2, amount3, period3, capacity3
while simple and first <= last do
	local to, head, refusing, done = first, outs, false, false
	repeat
		local k, a = byte(header, 8 + 2 * to, 9 + 2 * to)
		local arg, raw, before = ARGV[a], raws[k], args[k]
		local flags, n = byte(arg, 1, 2)
		local state, full, reply
		if flags == LAST + WINDOWED and to == first then
			--include look 1
			if simple then
				--include window
			end
		elseif flags < SIMPLE or flags > SIMPLE + LAST then
			simple = false
		elseif n == 1 then
			--include look 1
			if simple then
				--include decide 1
			end
		elseif n == 2 then
			--include look 2
			if simple then
				--include decide 2
			end
		elseif n == 3 then
			--include look 3
			if simple then
				--include decide 3
			end
		else
			--include many
		end
		if not state and not reply then
			simple = false
			break
		end
		outs = outs + 1
		out[outs] = reply or state
		done = flags % 2 == LAST
		if full and done and to == first then -- its only part
			states[k], fulls[k] = state, full
		elseif full then
			dues[outs - head] = full
		elseif not refusing and not (done and to == first) then -- all parts again, without their costs
			refusing, done, to, outs = true, false, first - 1, head
		end
		to = to + 1
	until done
	if not simple then -- forget what there is of this take, and leave it
		outs = head
		break
	end
	if to > first + 1 and not refusing then
		for i = 1, to - first do
			local k = byte(header, 6 + 2 * (first + i))
			states[k], fulls[k] = out[head + i], dues[i]
		end
	end
	first = to
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
