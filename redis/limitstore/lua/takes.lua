-- Plain takes, one after the other, each deciding on what those before it left.
-- Nearly all are of token buckets, or of one fixed window, that have no holds
-- and the same limits as before. The first that is not so simple, and all after
-- it, are left to the general case.
--
-- What costs most here is making strings, tables and functions: a lone take, of
-- one key, makes no tables, and up to three buckets are decided in straight
-- lines.

-- refill is Spec.Refill: what is used, and the remainder, after so much time.
local function refill(used, rem, elapsed, amount, period)
	local rest = elapsed % period
	local periods = (elapsed - rest) / period
	if periods > used / amount then
		return 0, 0
	end
	local parts = rest * amount + rem
	rem = parts % period
	used = used - periods * amount - (parts - rem) / period
	if used <= 0 then
		return 0, 0
	end
	return used, rem
end

local header = ARGV[1]
local flags = byte(header)
local lone = flags < PLAIN
local plain = flags <= PLAIN
if lone then
	testing = ARGV[2]
	now = testing and read('<d', testing)
else
	now = read('<d', header, 2)
	testing = now ~= 0
end
if not testing then
	local t = call('TIME')
	now = t[1] * 1000000 + t[2]
end

-- raws is what the keys hold, false if nothing; of a lone take it is the value
-- itself. Of the keys looked at: an argument with their limits; until when they
-- live; and if they have changed, the new states and when they are full. Tables
-- that are made with room need not grow so often, which costs a lot.
local raws, args, lives, states, fulls, dues
local out, outs = nil, 0 -- replies
local first, last = 1, 1 -- the parts of plain takes, or other arguments, not done yet
if lone then
	raws = call('GET', KEYS[1])
else
	if #KEYS == 1 then
		raws = {call('GET', KEYS[1])}
	else
		raws = call('MGET', unpack(KEYS))
		for k = 1, #KEYS do -- what is no string looks absent, and must not be overwritten
			if not raws[k] and redis.pcall('GET', KEYS[k]) then
				raws[k] = ''
			end
		end
	end
	args, lives, states, fulls = {nil, nil, nil, nil}, {nil, nil, nil, nil}, {nil, nil, nil, nil}, {nil, nil, nil, nil}
	out, dues = {nil, nil, nil, nil}, {nil, nil, nil, nil}
	if plain then
		last = (#header - 9) / 2
	else
		first, last = 2, #ARGV
	end
end

local simple, previous = plain, nil
local digest, cost, cost2, cost3 -- what the previous argument says
local amount, period, capacity, amount2, period2, capacity2, amount3, period3, capacity3
while simple and first <= last do
	local to, head, refusing, done = first, outs, false, false
	repeat
		local k, arg, raw, before, state = 1, header, raws, nil, nil
		if not lone then
			local a
			k, a = byte(header, 8 + 2 * to, 9 + 2 * to)
			arg, raw, before, state = ARGV[a], raws[k], args[k], states[k]
		end
		local flags, n = byte(arg, 1, 2)
		local windowed = flags == LAST + WINDOWED and to == first
		simple = windowed or flags == SIMPLE or flags == SIMPLE + LAST
		if before and before ~= arg then
			simple = simple and byte(before, 2) == n and read('<d', before, 3 + 2 * n) == read('<d', arg, 3 + 2 * n)
		elseif raw and #raw ~= #arg + 9 + 22 * n then
			simple = false
		end
		if not simple then
			break
		end
		local version, till, of, full, reply = VERSION, 0, nil, nil, nil
		if n == 1 then
			if arg ~= previous then
				digest, cost, amount, period, capacity = read('<ddddd', arg, 5)
			end
			local used, rem, time, consumed = 0, 0, now, 0
			if state then
				used, rem, time, consumed = read('<xdddd', state)
			elseif raw then
				version, till, of, used, rem, time, consumed = read('<Bddxxdddd', raw)
			end
			if windowed then -- its reply is of the general kind
				local t = time > now and time or now
				local start = t - t % period
				local stop = start + period
				if time ~= start then
					used = 0
				end
				if used == 0 then -- full means absent
					consumed = 0
				end
				local fits, charge, retry, reset = used + cost <= capacity and 1 or 0, cost, 0, math.min(stop - now, 2 ^ 52)
				if fits == 0 then
					charge = byte(arg, 3) == COUNTREFUSED and math.max(0, math.min(cost, capacity + 1e15 - used)) or 0
					retry = cost > capacity and -1 or reset
				end
				if charge > 0 then
					used, full = used + charge, stop
					state = write('<Bdddd', ALLOWED, used, stop, start, math.min(consumed + charge, 2 ^ 53 - 1))
				end
				reply = write('<BddBdddddd', fits, t, 0, fits, charge, capacity - used, retry, used > 0 and reset or 0, 0, 0)
			elseif time > now then
				simple = false
			else
				used, rem = refill(used, rem, now - time, amount, period)
				if refusing or used + cost > capacity then
					state = write('<Bdddd', REFUSED, used, rem, now, consumed)
				else
					if used == 0 then
						consumed = 0
					end
					used, consumed = used + cost, consumed + cost
					if consumed > 9007199254740991 then -- 2^53 - 1
						consumed = 9007199254740991
					end
					state, full = write('<Bdddd', ALLOWED, used, rem, now, consumed), now + used / amount * period
				end
			end
		elseif n == 2 then
			if arg ~= previous then
				digest, cost, cost2, amount, period, capacity, amount2, period2, capacity2 = read('<ddddddddd', arg, 7)
			end
			local used, rem, time, consumed, used2, rem2, time2, consumed2 = 0, 0, now, 0, 0, 0, now, 0
			if state then
				used, rem, time, consumed, used2, rem2, time2, consumed2 = read('<xdddddddd', state)
			elseif raw then
				version, till, of, used, rem, time, consumed, used2, rem2, time2, consumed2 = read('<Bddxxdddddddd', raw)
			end
			simple = time <= now and time2 <= now
			used, rem = refill(used, rem, now - time, amount, period)
			used2, rem2 = refill(used2, rem2, now - time2, amount2, period2)
			if refusing or used + cost > capacity or used2 + cost2 > capacity2 then
				state = write('<Bdddddddd', REFUSED, used, rem, now, consumed, used2, rem2, now, consumed2)
			else
				if used == 0 then
					consumed = 0
				end
				if used2 == 0 then
					consumed2 = 0
				end
				used, consumed, used2, consumed2 = used + cost, consumed + cost, used2 + cost2, consumed2 + cost2
				if consumed > 9007199254740991 then
					consumed = 9007199254740991
				end
				if consumed2 > 9007199254740991 then
					consumed2 = 9007199254740991
				end
				local due, due2 = used / amount * period, used2 / amount2 * period2
				full = now + (due > due2 and due or due2)
				state = write('<Bdddddddd', ALLOWED, used, rem, now, consumed, used2, rem2, now, consumed2)
			end
		elseif n == 3 then
			if arg ~= previous then
				digest, cost, cost2, cost3, amount, period, capacity, amount2, period2, capacity2, amount3, period3, capacity3 =
					read('<ddddddddddddd', arg, 9)
			end
			local used, rem, time, consumed, used2, rem2, time2, consumed2 = 0, 0, now, 0, 0, 0, now, 0
			local used3, rem3, time3, consumed3 = 0, 0, now, 0
			if state then
				used, rem, time, consumed, used2, rem2, time2, consumed2, used3, rem3, time3, consumed3 =
					read('<xdddddddddddd', state)
			elseif raw then
				version, till, of, used, rem, time, consumed, used2, rem2, time2, consumed2, used3, rem3, time3, consumed3 =
					read('<Bddxxdddddddddddd', raw)
			end
			simple = time <= now and time2 <= now and time3 <= now
			used, rem = refill(used, rem, now - time, amount, period)
			used2, rem2 = refill(used2, rem2, now - time2, amount2, period2)
			used3, rem3 = refill(used3, rem3, now - time3, amount3, period3)
			if refusing or used + cost > capacity or used2 + cost2 > capacity2 or used3 + cost3 > capacity3 then
				state = write('<Bdddddddddddd', REFUSED, used, rem, now, consumed, used2, rem2, now, consumed2,
					used3, rem3, now, consumed3)
			else
				if used == 0 then
					consumed = 0
				end
				if used2 == 0 then
					consumed2 = 0
				end
				if used3 == 0 then
					consumed3 = 0
				end
				used, consumed, used2, consumed2 = used + cost, consumed + cost, used2 + cost2, consumed2 + cost2
				used3, consumed3 = used3 + cost3, consumed3 + cost3
				if consumed > 9007199254740991 then
					consumed = 9007199254740991
				end
				if consumed2 > 9007199254740991 then
					consumed2 = 9007199254740991
				end
				if consumed3 > 9007199254740991 then
					consumed3 = 9007199254740991
				end
				local due, due2, due3 = used / amount * period, used2 / amount2 * period2, used3 / amount3 * period3
				if due2 > due then
					due = due2
				end
				full = now + (due > due3 and due or due3)
				state = write('<Bdddddddddddd', ALLOWED, used, rem, now, consumed, used2, rem2, now, consumed2,
					used3, rem3, now, consumed3)
			end
		else -- in a loop, which costs twice as much
			digest = read('<d', arg, 3 + 2 * n)
			local known, at = state, 2
			if raw and not state then
				version, till, of = read('<Bdd', raw)
				known, at = raw, 20
			end
			local without, with, fits, due = {REFUSED}, {ALLOWED}, not refusing, 0
			for i = 1, n do
				local cost, amount, period, capacity = read('<d', arg, 3 + 2 * n + 8 * i), read('<ddd', arg, 24 * i + 10 * n - 13)
				local used, rem, time, consumed = 0, 0, now, 0
				if known then
					used, rem, time, consumed, at = read('<dddd', known, at)
				end
				simple = simple and time <= now
				used, rem = refill(used, rem, now - time, amount, period)
				local j = 4 * i - 2
				without[j], without[j + 1], without[j + 2], without[j + 3] = used, rem, now, consumed
				if used == 0 then
					consumed = 0
				end
				used = used + cost
				with[j], with[j + 1], with[j + 2], with[j + 3] = used, rem, now, math.min(consumed + cost, 2 ^ 53 - 1)
				fits = fits and used <= capacity
				due = math.max(due, used / amount * period)
			end
			full = fits and now + due or nil
			state = write('<B' .. string.rep('dddd', n), unpack(fits and with or without))
		end
		previous = arg
		if not simple or version ~= VERSION or of and of ~= digest then
			simple = false
			break
		end
		if lone then
			if full and full <= till then
				call('SETRANGE', KEYS[1], '18', state)
			elseif full then
				if full > now + 4503599627370496 then -- 2^52
					full = now + 4503599627370496
				end
				till = full + (full - now) / 4 + 1000000
				call('SET', KEYS[1], write('<BddB', VERSION, till, digest, n) .. state .. string.sub(arg, 11 + 10 * n),
					'PX', testing and '3600000' or string.format('%d', (till - now) / 1000 + 2))
			end
			return reply or state
		end
		if not before then
			args[k], lives[k] = arg, till
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
