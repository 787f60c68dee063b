-- The general case: everything below is defined only when it is needed.
local ENTRY = 32 -- bytes of a hold and of a holder

-- spec reads a limit: bucket.Compile. zone tells calendars apart.
local function spec(limit, windows)
	local amount, period, capacity, alg, calendar = read('<dddxxxxxxxxBB', limit)
	calendar = calendar % 16 -- the rest says how Burst was written
	return {
		limit = limit, alg = alg, amount = amount, period = period, capacity = capacity,
		calendar = calendar, zone = sub(limit, 35), windows = windows,
	}
end

-- A sliding window's counts are kept by age, newest first, without zeros.
local function readCounts(rest, time)
	local counts, at = {}, 1
	while at <= #rest do
		local age, count
		age, count, at = read('<Bd', rest, at)
		counts[time - age] = count
	end
	return counts
end

local function writeCounts(counts, time)
	local out = {}
	for age = 0, 32 do
		local count = counts[time - age]
		if count and count > 0 then
			out[#out + 1] = write('<Bd', age, count)
		end
	end
	return table.concat(out)
end

-- Holds come after the recall, in order of expiry.
local function readHolds(rest)
	local holds = {}
	for at = 17, #rest, ENTRY do
		local amount, expires = read('<dd', rest, at + 16)
		holds[#holds + 1] = {id = sub(rest, at, at + 15), amount = amount, expires = expires}
	end
	return holds
end

local function writeHolds(s)
	if not s.holds or #s.holds == 0 and s.recalled == 0 then
		return ''
	end
	local out = {write('<dd', s.recalled, s.recallCost)}
	for i, h in ipairs(s.holds) do
		out[i + 1] = h.id .. write('<dd', h.amount, h.expires)
	end
	return table.concat(out)
end

-- decode makes a bucket.State of what a record says of a bucket.
local function decode(b)
	local s = {
		used = b.used, rem = b.rem, time = b.time, consumed = b.consumed, limit = b.limit, tickets = readTickets(b.tickets),
	}
	local alg = byte(b.limit, 33)
	if alg == SLIDING then
		s.counts = readCounts(b.rest, b.time)
	elseif alg == CONCURRENCY then
		s.holders = b.rest
	else
		if alg == FIXED then
			s.stop, s.rem = b.rem, 0
		end
		if b.rest ~= '' then
			s.recalled, s.recallCost = read('<dd', b.rest)
			s.holds = readHolds(b.rest)
		end
	end
	return s
end

-- encode is the opposite.
local function encode(b, p, s)
	b.limit, b.used, b.rem, b.time, b.consumed = p.limit, s.used, s.rem, s.time, s.consumed
	b.tickets = writeTickets(s.tickets)
	if p.alg == SLIDING then
		b.rest = writeCounts(s.counts or {}, s.time)
	elseif p.alg == CONCURRENCY then
		b.rest = s.holders or ''
	else
		if p.alg == FIXED then
			b.rem = s.stop or 0
		end
		b.rest = writeHolds(s)
	end
end

-- readLimit reads the i-th of n limits of a record or argument, in which they
-- begin at start, and the zones and names of those left at at. It answers the
-- limit, '<ddddBBs' with the zone, its name, and where the next are.
local function readLimit(text, start, n, i, at)
	local a, b = byte(text, at, at + 1)
	local numbers, more = start + 24 * (i - 1), start + 24 * n + 10 * (i - 1)
	local limit = sub(text, numbers, numbers + 23) .. sub(text, more, more + 9) .. sub(text, at + 2, at + 1 + a)
	return limit, sub(text, at + 2 + a, at + 1 + a + b), at + 2 + a + b
end

-- isRest reports whether text can be the rest of a bucket.
local function isRest(text, alg, used)
	if alg == SLIDING or alg == CONCURRENCY then
		return #text % (alg == SLIDING and 9 or ENTRY) == 0 and (#text > 0 or used == 0)
	end
	return alg <= CONCURRENCY and (text == '' or #text % ENTRY == 16)
end

-- fillRecord reads all buckets of a key into r. It fails if raw is cut off.
local function fillRecord(r, raw)
	local version, n
	version, r.lives, n = read('<BdxxxxxxxxB', raw)
	local at = 20 + 66 * n
	for i = 1, n do
		local used, rem, time, consumed = read('<dddd', raw, 32 * i - 12)
		r[i] = {used = used, rem = rem, time = time, consumed = consumed, rest = '', tickets = ''}
		r[i].limit, r[i].name, at = readLimit(raw, 20 + 32 * n, n, i, at)
	end
	for i = 1, (at <= #raw or version == WAITING) and n or 0 do
		local size = read('<I4', raw, at)
		r[i].rest = sub(raw, at + 4, at + 3 + size)
		at = at + 4 + size
		if version == WAITING then
			size = read('<I4', raw, at)
			r[i].tickets = sub(raw, at + 4, at + 3 + size)
			at = at + 4 + size
		end
	end
	for _, b in ipairs(r) do
		assert(isRest(b.rest, byte(b.limit, 33), b.used) and #b.tickets % TICKET == 0)
	end
	assert(at == #raw + 1)
end

-- readRecord reads all buckets of a key. It answers nothing, and the version, if
-- they cannot be read.
local function readRecord(raw)
	local r, version = {lives = 0}, raw and (byte(raw) or 0)
	if raw and not ((version == VERSION or version == WAITING) and pcall(fillRecord, r, raw)) then
		return nil, version
	end
	return r
end

local function writeRecord(r)
	local n, empty, waiting, states, limits, rests = #r, true, false, {}, {}, {}
	for _, b in ipairs(r) do
		waiting = waiting or b.tickets ~= ''
	end
	for i, b in ipairs(r) do
		states[i] = write('<dddd', b.used, b.rem, b.time, b.consumed)
		limits[i], limits[n + i] = sub(b.limit, 1, 24), sub(b.limit, 25, 34)
		limits[2 * n + i] = write('<BB', #b.limit - 34, #b.name) .. sub(b.limit, 35) .. b.name
		rests[i] = write('<I4', #b.rest) .. b.rest .. (waiting and write('<I4', #b.tickets) .. b.tickets or '')
		empty = empty and b.rest == '' and not waiting
	end
	limits = table.concat(limits)
	local digest = tonumber(sub(redis.sha1hex(write('<B', n) .. limits), 1, 13), 16)
	return write('<BddBB', waiting and WAITING or VERSION, r.lives, digest, n, ALLOWED) .. table.concat(states) .. limits ..
		(empty and '' or table.concat(rests))
end
