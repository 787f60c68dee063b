-- The arithmetic of the takes that are decided fast. All token buckets refill
-- and repay by it, those of the general case, too.

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

-- decide decides a take of n token buckets, of which it gets the argument, what
-- their key holds, and the states that the call has given them since; either may
-- be missing. It returns the new states, which are also the reply; when all will
-- be full, unless they are not charged; and until when the key lives. It returns
-- nothing if the take is for the general case: the limits have changed, there are
-- holds, or a bucket is ahead of the clock.
--
-- What costs most here is making strings and tables: up to three buckets are
-- decided in straight lines, with as few of them as can be. The function itself
-- is made for every call, and costs more the more locals of others it uses: so
-- it has few.
local function decide(now, n, arg, raw, state, refusing)
	local read, write = struct.unpack, struct.pack
	local VERSION, REFUSED, ALLOWED, MOST = 1, 32, 33, 9007199254740991 -- 2^53 - 1
	local version, lives, of = VERSION, 0, nil
	if raw and #raw ~= #arg + 9 + 22 * n then
		return nil
	end
	if n == 1 then
		local digest, cost, amount, period, capacity = read('<ddddd', arg, 5)
		local used, rem, time, consumed = 0, 0, now, 0
		if state then
			used, rem, time, consumed = read('<xdddd', state)
		elseif raw then
			version, lives, of, used, rem, time, consumed = read('<Bddxxdddd', raw)
		end
		if version ~= VERSION or of and of ~= digest or time > now then
			return nil
		end
		used, rem = refill(used, rem, now - time, amount, period)
		if refusing or used + cost > capacity then
			return write('<Bdddd', REFUSED, used, rem, now, consumed), nil, lives
		end
		if used == 0 then -- full means absent
			consumed = 0
		end
		used, consumed = used + cost, consumed + cost
		if consumed > MOST then
			consumed = MOST
		end
		return write('<Bdddd', ALLOWED, used, rem, now, consumed), now + used / amount * period, lives
	elseif n == 2 then
		local digest, cost, cost2, amount, period, capacity, amount2, period2, capacity2 = read('<ddddddddd', arg, 7)
		local used, rem, time, consumed, used2, rem2, time2, consumed2 = 0, 0, now, 0, 0, 0, now, 0
		if state then
			used, rem, time, consumed, used2, rem2, time2, consumed2 = read('<xdddddddd', state)
		elseif raw then
			version, lives, of, used, rem, time, consumed, used2, rem2, time2, consumed2 = read('<Bddxxdddddddd', raw)
		end
		if version ~= VERSION or of and of ~= digest or time > now or time2 > now then
			return nil
		end
		used, rem = refill(used, rem, now - time, amount, period)
		used2, rem2 = refill(used2, rem2, now - time2, amount2, period2)
		if refusing or used + cost > capacity or used2 + cost2 > capacity2 then
			return write('<Bdddddddd', REFUSED, used, rem, now, consumed, used2, rem2, now, consumed2), nil, lives
		end
		if used == 0 then
			consumed = 0
		end
		if used2 == 0 then
			consumed2 = 0
		end
		used, consumed, used2, consumed2 = used + cost, consumed + cost, used2 + cost2, consumed2 + cost2
		if consumed > MOST then
			consumed = MOST
		end
		if consumed2 > MOST then
			consumed2 = MOST
		end
		local due, due2 = used / amount * period, used2 / amount2 * period2
		if due2 > due then
			due = due2
		end
		return write('<Bdddddddd', ALLOWED, used, rem, now, consumed, used2, rem2, now, consumed2), now + due, lives
	elseif n == 3 then
		local digest, cost, cost2, cost3, amount, period, capacity, amount2, period2, capacity2, amount3, period3, capacity3 =
			read('<ddddddddddddd', arg, 9)
		local used, rem, time, consumed, used2, rem2, time2, consumed2 = 0, 0, now, 0, 0, 0, now, 0
		local used3, rem3, time3, consumed3 = 0, 0, now, 0
		if state then
			used, rem, time, consumed, used2, rem2, time2, consumed2, used3, rem3, time3, consumed3 =
				read('<xdddddddddddd', state)
		elseif raw then
			version, lives, of, used, rem, time, consumed, used2, rem2, time2, consumed2, used3, rem3, time3, consumed3 =
				read('<Bddxxdddddddddddd', raw)
		end
		if version ~= VERSION or of and of ~= digest or time > now or time2 > now or time3 > now then
			return nil
		end
		used, rem = refill(used, rem, now - time, amount, period)
		used2, rem2 = refill(used2, rem2, now - time2, amount2, period2)
		used3, rem3 = refill(used3, rem3, now - time3, amount3, period3)
		if refusing or used + cost > capacity or used2 + cost2 > capacity2 or used3 + cost3 > capacity3 then
			return write('<Bdddddddddddd', REFUSED, used, rem, now, consumed, used2, rem2, now, consumed2,
				used3, rem3, now, consumed3), nil, lives
		end
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
		if consumed > MOST then
			consumed = MOST
		end
		if consumed2 > MOST then
			consumed2 = MOST
		end
		if consumed3 > MOST then
			consumed3 = MOST
		end
		local due, due2, due3 = used / amount * period, used2 / amount2 * period2, used3 / amount3 * period3
		if due2 > due then
			due = due2
		end
		if due3 > due then
			due = due3
		end
		return write('<Bdddddddddddd', ALLOWED, used, rem, now, consumed, used2, rem2, now, consumed2,
			used3, rem3, now, consumed3), now + due, lives
	end
	local states, at = state, 2
	if raw and not state then
		version, lives, of = read('<Bdd', raw)
		states, at = raw, 20
		if version ~= VERSION or of ~= read('<d', arg, 3 + 2 * n) then
			return nil
		end
	end
	local before, after, fits, due = {REFUSED}, {ALLOWED}, not refusing, 0
	for i = 1, n do
		local cost, amount, period, capacity = read('<d', arg, 3 + 2 * n + 8 * i), read('<ddd', arg, 24 * i + 10 * n - 13)
		local used, rem, time, consumed = 0, 0, now, 0
		if states then
			used, rem, time, consumed, at = read('<dddd', states, at)
		end
		if time > now then
			return nil
		end
		used, rem = refill(used, rem, now - time, amount, period)
		local j = 4 * i - 2
		before[j], before[j + 1], before[j + 2], before[j + 3] = used, rem, now, consumed
		if used == 0 then
			consumed = 0
		end
		used = used + cost
		after[j], after[j + 1], after[j + 2], after[j + 3] = used, rem, now, math.min(consumed + cost, MOST)
		fits = fits and used <= capacity
		due = math.max(due, used / amount * period)
	end
	return write('<B' .. string.rep('dddd', n), unpack(fits and after or before)), fits and now + due or nil, lives
end
