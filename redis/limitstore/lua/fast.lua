-- Everything else from here on. script.go puts it into a function of its own.
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

-- decideWindow is decide for one fixed window. The reply, of the general kind,
-- comes last; the state is nil if it has not changed.
local function decideWindow(arg, raw, state)
	local digest, cost, _, period, capacity = read('<ddddd', arg, 5)
	local used, time, consumed, version, lives, of = 0, now, 0, VERSION, 0, digest
	if state then
		used, _, time, consumed = read('<xdddd', state)
	elseif raw and #raw == #arg + 31 then
		version, lives, of, used, _, time, consumed = read('<Bddxxdddd', raw)
	elseif raw then
		return nil
	end
	if version ~= VERSION or of ~= digest then
		return nil
	end
	local t = max(now, time)
	local start = t - t % period
	local stop = start + period
	if time ~= start then
		used = 0
	end
	if used == 0 then -- full means absent
		consumed = 0
	end
	local fits, charge, retry, full = used + cost <= capacity, 0, 0, nil
	if fits then
		charge = cost
	else
		retry = cost > capacity and -1 or min(stop - now, 2 ^ 52)
		if byte(arg, 3) == COUNTREFUSED then
			charge = max(0, min(cost, capacity + 1e15 - used))
		end
	end
	state = nil
	if charge > 0 then
		used, full = used + charge, stop
		state = write('<Bdddd', ALLOWED, used, stop, start, min(consumed + charge, 2 ^ 53 - 1))
	end
	local yes = fits and 1 or 0
	return state, full, lives, write('<BddBdddddd', yes, t, 0, yes, charge, capacity - used, retry, used > 0 and min(stop - now, 2 ^ 52) or 0, 0, 0)
end

local simple, dues = plain and not tried, {nil, nil, nil, nil}
while simple and first <= last do
	local to, head, refusing, done = first, outs, false, false
	repeat
		local k, a = byte(header, 8 + 2 * to, 9 + 2 * to)
		local arg, before = ARGV[a], args[k]
		local flags, n = byte(arg, 1, 2)
		local state, full, till, reply
		if before and before ~= arg and (byte(before, 2) ~= n or read('<d', before, 3 + 2 * n) ~= read('<d', arg, 3 + 2 * n)) then
			simple = false -- other limits
		elseif flags == SIMPLE or flags == SIMPLE + LAST then
			state, full, till = decide(now, n, arg, raws[k], states[k], refusing)
		elseif flags == LAST + WINDOWED and to == first then
			state, full, till, reply = decideWindow(arg, raws[k], states[k])
		end
		if not before then
			args[k], lives[k] = arg, till
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
