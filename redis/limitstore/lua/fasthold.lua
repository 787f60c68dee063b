-- Holds on the only bucket of their key, a token bucket under an unchanged
-- limit, which nearly all are. They are granted and returned on the packed
-- holds, for the same reason as plain takes are decided before. The first that
-- is not so simple, and all after it, are left to the general case.
local HOLDING, RETURNING = 5, 6
local NOID = string.rep('\0', 16)
local MOST, FOREVER, MAXHOLDS = 2 ^ 53 - 1, 2 ^ 52, 256 -- of package bucket
local room, granted = {}, {} -- the buckets in which room was made; replies

-- repayIn is Spec.RepayIn.
local function repayIn(n, rem, amount, period)
	if n <= 0 then
		return 0
	end
	local rest = n % amount
	local whole = (n - rest) / amount
	if whole > floor(FOREVER / period) then
		return FOREVER
	end
	return min(whole * period + ceil((rest * period - rem) / amount), FOREVER)
end

if kind == HOLDING or kind == RETURNING then
	local numbers = #header - last -- where those of the keys are

	-- open reads a bucket, in a record whose rest would begin at a place, as it
	-- is now: what is used, its remainder, what was consumed, the recall, the
	-- holds and their sum. It answers nothing if it is ahead of the clock.
	local function open(raw, rest, amount, period)
		local used, rem, time, consumed = read('<dddd', raw, 20)
		local recalled, recallCost, holds, held = 0, 0, '', 0
		if time > now then
			return nil
		end
		if #raw >= rest then
			recalled, recallCost = read('<dd', raw, rest + 4)
			local at = rest + 20
			while at < #raw do
				local n, expires = read('<dd', raw, at + 16)
				if expires > now then
					break
				end
				expires = max(expires, time)
				used, rem = refill(used, rem, expires - time, amount, period)
				used, time, consumed, at = used + n, expires, min(consumed + n, MOST), at + 32
			end
			holds = sub(raw, at)
			for i = 17, #holds, 32 do
				held = held + read('<d', holds, i)
			end
		end
		used, rem = refill(used, rem, now - time, amount, period)
		return used, rem, consumed, recalled, recallCost, holds, held
	end

	-- isWhole reports whether a record whose rest would begin at a place is not cut
	-- off.
	local function isWhole(raw, rest)
		local size = #raw + 1 - rest
		return size == 0 or size >= 20 and size % 32 == 20 and read('<I4', raw, rest) == size - 4
	end

	-- close takes a hold out: it answers the others and how much it was.
	local function close(holds, id)
		local at = 0
		repeat
			at = string.find(holds, id, at + 1, true)
		until not at or at % 32 == 1
		if not at then
			return holds, nil
		end
		return sub(holds, 1, at - 1) .. sub(holds, at + 32), (read('<d', holds, at + 16))
	end

	-- put notes a bucket's new state, or that it is as good as absent. That it
	-- is full is noted late rather than exactly.
	local function put(k, digest, limits, amount, period, used, rem, consumed, recalled, recallCost, holds, held)
		changed[k] = true
		if used == 0 and held == 0 and recalled <= now then
			raws[k] = false
			return
		end
		local full, rest = now, ''
		if #holds > 0 then
			full = read('<d', holds, #holds - 7)
		end
		if #holds > 0 or recalled ~= 0 then
			rest = write('<I4dd', 16 + #holds, recalled, recallCost) .. holds
		end
		full = max(full + (used + held) / amount * period, recalled)
		raws[k] = write('<BddBBdddd', VERSION, later(full), digest, 1, ALLOWED, used, rem, now, consumed) .. limits .. rest
	end

	-- holdableIn is Spec.HoldableIn of what was not granted.
	local function holdableIn(least, amount, period, capacity, used, rem, recalled, holds, held)
		local t, target, at, due = now, capacity - least, 1, nil
		if least <= capacity - used - held then
			due = now
		elseif least > capacity then
			return -1
		end
		while not due and held > 0 do
			local n, expires = read('<dd', holds, at + 16)
			if held <= target then
				local wait = repayIn(used + held - target, rem, amount, period)
				due = t + wait <= expires and t + wait or nil
			end
			used, rem = refill(used, rem, expires - t, amount, period)
			t, used, held, at = expires, used + n, held - n, at + 32
		end
		due = due or t + repayIn(used - target, rem, amount, period)
		return max(min(due - now, FOREVER), recalled - now)
	end

	while kind == HOLDING and first <= last do
		local arg, ask, k = ARGV[first], ARGV[first + 1], byte(header, numbers + first)
		local flags, n = byte(arg, 1, 2)
		local digest, _, amount, period, capacity = read('<ddddd', arg, 5)
		local raw, limits = raws[k], sub(arg, 21)
		if flags % 4 < SIMPLE or n ~= 1 or raw and (byte(raw) ~= VERSION or not isWhole(raw, 52 + #limits) or read('<d', raw, 10) ~= digest) then
			break
		end
		local used, rem, consumed, recalled, recallCost, holds, held = 0, 0, 0, 0, 0, '', 0
		if raw then
			used, rem, consumed, recalled, recallCost, holds, held = open(raw, 52 + #limits, amount, period)
			if not used or #holds >= 32 * MAXHOLDS then
				break
			end
		end
		local least, most, life, spent = read('<dddd', ask)
		local previous, was, free = sub(ask, 49, 64), nil, 0
		if previous ~= NOID then
			holds, was = close(holds, previous)
			if was then
				spent = min(max(spent, 0), was)
				used, consumed, held, free = used + spent, min(consumed + spent, MOST), held - was, was - spent
			end
		end
		if used == 0 and held == 0 and recalled <= now then
			consumed, recalled, recallCost = 0, 0, 0
		end
		local left, expires, retry = capacity - used - held, 0, 0
		local mark, grant = recalled > now and 1 or 0, min(most, left)
		if grant > 0 and grant >= least and mark == 0 then
			expires = now + life
			local at = #holds
			while at > 0 and read('<d', holds, at - 7) > expires do
				at = at - 32
			end
			local hold = sub(ask, 33, 48) .. write('<dd', grant, expires)
			holds, held = sub(holds, 1, at) .. hold .. sub(holds, at + 1), held + grant
		else
			grant = 0
			retry = holdableIn(least, amount, period, capacity, used, rem, recalled, holds, held)
			if least > left and least <= left + held then
				mark = mark + 2
			end
		end
		if grant > 0 or was then
			put(k, digest, limits, amount, period, used, rem, consumed, recalled, recallCost, holds, held)
		end
		if free > grant then
			room[#room + 1] = KEYS[k] .. '\0' .. sub(limits, 37 + byte(limits, 35))
		end
		granted[#granted + 1] = write('<Bdddddd', mark, grant, capacity - used, expires, now, retry, capacity - used - held)
		first = first + 2
	end

	while kind == RETURNING and first <= last do
		local arg, k = ARGV[first], byte(header, numbers + first)
		local raw = raws[k]
		if raw then
			if byte(raw) ~= VERSION or byte(raw, 18) ~= 1 or #raw < 87 then
				break
			end
			local name, digest = sub(arg, 25), read('<d', raw, 10)
			local amount, period = read('<dd', raw, 52)
			local algorithm, _, a, b = byte(raw, 84, 87)
			local rest = 88 + a + b
			if algorithm ~= TOKENS or sub(raw, 88 + a, rest - 1) ~= name or not isWhole(raw, rest) then
				break
			end
			local used, rem, consumed, recalled, recallCost, holds, held = open(raw, rest, amount, period)
			if not used then
				break
			end
			local was
			holds, was = close(holds, sub(arg, 9, 24))
			if was then
				local spent = min(max(read('<d', arg), 0), was)
				put(k, digest, sub(raw, 52, rest - 1), amount, period, used + spent, rem, min(consumed + spent, MOST),
					recalled, recallCost, holds, held - was)
				if was > spent then
					room[#room + 1] = KEYS[k] .. '\0' .. name
				end
			end
		end
		first = first + 1
	end

	if first > last then
		for k in pairs(changed) do
			if raws[k] then
				call('SET', KEYS[k], raws[k], 'PX', keepFor((read('<d', raws[k], 2))))
			else
				call('DEL', KEYS[k])
			end
		end
		for _, message in ipairs(room) do
			redis.pcall('PUBLISH', 'sluice:1:room', message)
		end
		return write('<Bdd', 1, now, 0) .. table.concat(granted)
	end
end
