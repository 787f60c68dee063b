-- A place is a bucket that a call works on: its spec, state and view, and where
-- it is kept.

-- Statuses of answers that are not decisions. A number goes with each: what
-- cannot be read, the time for which calendar windows are needed, and so on.
local FOREIGN, WINDOW, MISMATCH, CROWDED, CLOSED, NOLIMIT, FIXEDCOST = 2, 3, 4, 5, 6, 7, 8

local MOSTBUCKETS = 255 -- of a key

-- which says what cannot be read: the record of an argument, counted from 1, or
-- another one; and the version found.
local function which(argument, version)
	return 256 * argument + version
end

-- keyOf and argOf are the number of the key and the argument of a part of a
-- plain take, or of any other call's argument.
local function keyOf(i)
	return plain and byte(header, 8 + 2 * i) or byte(header, #header - #ARGV + i)
end

local function argOf(i)
	return plain and ARGV[byte(header, 9 + 2 * i)] or ARGV[i]
end

local function has(flags, bit)
	return flags % (2 * bit) >= bit
end

-- The records looked at, by the number of their key; other values to write;
-- the limit whose windows are missing.
local records, values, missing = {}, {}, ''

-- own is the spec that a state was written under. Of a calendar only the
-- window that the state is of is known; that it is over is enough to know.
local function own(s)
	return spec(s.limit, {s.time, s.stop, FOREVER})
end

local function isAbsent(s, v)
	return v.used == 0 and v.held == 0 and not isRecalled(s, v)
end

-- tidy is a record without the buckets that might as well be absent. It works
-- out when all others will be, too. Of buckets that this call has not changed
-- it goes by the record, which knows no better than the latest of all; they
-- are looked at only when the record has grown, so that it does not for ever.
local function tidy(r)
	local kept = {lives = 0, changed = r.changed}
	for _, b in ipairs(r) do
		if r.grown and not b.full then
			local s = decode(b)
			b.idle = isAbsent(s, view(own(s), s, now))
		end
		if not b.idle then
			if b.tickets ~= '' then -- without those that have expired nobody waits
				local s = {tickets = readTickets(b.tickets)}
				removeTicket(s, {now = now})
				b.tickets = writeTickets(s.tickets)
			end
			kept[#kept + 1] = b
			kept.lives = max(kept.lives, b.full and later(b.full) or r.lives)
		end
	end
	return kept
end

local function find(r, name)
	for _, b in ipairs(r) do
		if b.name == name then
			return b
		end
	end
end

-- current answers the spec, state and view of what a record says of a bucket,
-- under its own limit; and whether it is of a calendar window that is over, of
-- which only those who wait are left, and whose next window is not known.
local function current(b)
	local s = decode(b)
	local q = own(s)
	local v = view(q, s, now)
	if v.stop ~= FOREVER then
		return q, s, v, false
	end
	for _, h in ipairs(s.holds or {}) do
		s.consumed = saturate(s.consumed + h.amount)
	end
	s = {used = 0, rem = 0, time = 0, consumed = s.consumed, tickets = s.tickets, limit = s.limit}
	return q, s, view(q, s, now), true
end

-- open finds a bucket as it is, and answers its spec, state and view: under
-- its own limit, or if it might as well be absent, a new one under p.
local function open(r, name, p)
	local b = find(r, name)
	if b then
		local q, s, v, over = current(b)
		if over and v.tickets > 0 then
			return p, s, view(p, s, now)
		elseif not over and not isAbsent(s, v) then
			return q, s, v
		end
	end
	local s = {used = 0, rem = 0, time = 0, consumed = 0}
	return p, s, view(p, s, now)
end

-- parse reads an argument.
local function parse(arg)
	local n = byte(arg, 2)
	local at, all = 11 + 44 * n, {}
	for d = 1, n do
		all[d] = {flags = byte(arg, 1 + 2 * d), cost = (read('<d', arg, 3 + 2 * n + 8 * d))}
		all[d].limit, all[d].name, at = readLimit(arg, 11 + 10 * n, n, d, at)
	end
	for d = 1, n do
		if byte(all[d].limit, 34) % 16 > 0 then
			all[d].windows = {read('<dddd', arg, at)}
			all[d].windows[5], at = nil, at + 32
		end
	end
	return all
end

-- place finds the bucket of a demand in the key numbered k, and has it adopt
-- the limit if it is to. If it cannot, it answers nothing, a status and a
-- number.
local function place(k, demand, adopting)
	local r, p = records[k], spec(demand.limit, demand.windows)
	if not r then
		local version
		r, version = readRecord(raws[k])
		if not r then
			return nil, FOREIGN, version
		end
		records[k] = r
	end
	if #r >= MOSTBUCKETS and not find(r, demand.name) then
		r.grown = true
		r = tidy(r)
		records[k] = r
		if #r >= MOSTBUCKETS then
			return nil, CROWDED, #r
		end
	end
	local q, s, v = open(r, demand.name, p)
	local repaced = false
	if adopting and q.limit ~= p.limit then
		local t
		repaced = p.alg == TOKENS and q.alg == TOKENS and (p.amount ~= q.amount or p.period ~= q.period) -- Spec.Repaces
		s, t = adopt(p, s, q, now)
		if not s then
			return nil, WINDOW, t
		end
		q, v = p, view(p, s, now)
	end
	if not v.time then
		missing = q.limit
		return nil, WINDOW, v.now
	end
	return {k = k, name = demand.name, flags = demand.flags, cost = demand.cost, spec = q, state = s, view = v, repaced = repaced}
end

-- demands are the places of the arguments first..last, for something that is
-- decided or consumed under their limits.
local function demands(first, last)
	local all = {}
	for i = first, last do
		for _, demand in ipairs(parse(argOf(i))) do
			local pl, status, detail = place(keyOf(i), demand, true)
			if not pl then
				return nil, status, status == FOREIGN and which(i - first + 1, detail) or detail
			end
			all[#all + 1] = pl
		end
	end
	return all
end

-- latest is the time of an operation on several buckets.
local function latest(all)
	local t = now
	for _, pl in ipairs(all) do
		t = max(t, pl.view.now)
	end
	return t
end

-- look brings the view of a place up to date with its state.
local function look(pl)
	pl.view = view(pl.spec, pl.state, now)
	if pl.ticket then
		stand(pl.state, pl.view, pl.ticket)
	end
end

-- keep notes that a place has changed.
local function keep(pl)
	local r = records[pl.k]
	local b = find(r, pl.name)
	if not b then
		b = {name = pl.name, rest = '', tickets = ''}
		r[#r + 1], r.grown = b, true
	end
	encode(b, pl.spec, pl.state)
	look(pl)
	b.full = max(now + idleIn(pl.spec, pl.state, pl.view), pl.view.ticketsEnd)
	if pl.state.holds then
		b.full = max(b.full, pl.state.recalled)
	end
	b.idle = isAbsent(pl.state, pl.view)
	r.changed = true
end

-- freed notes that room was made in a place.
local function freed(pl)
	room[#room + 1] = KEYS[pl.k] .. '\0' .. pl.name
end

local function put(key, value, lives)
	call('SET', key, value, 'PX', keepFor(lives))
end

-- flush writes everything and tells those who wait of room. It comes last: an
-- error before it proves that nothing has happened.
local function flush()
	for k, r in pairs(records) do
		if r.changed then
			r = tidy(r)
			raws[k], changed[k] = #r > 0 and writeRecord(r), true
		end
	end
	for k in pairs(changed) do
		if raws[k] then
			put(KEYS[k], raws[k], (read('<d', raws[k], 2)))
		else
			call('DEL', KEYS[k])
		end
	end
	for _, v in ipairs(values) do
		put(v.key, v.value, v.expires)
	end
	for _, message in ipairs(room) do
		redis.pcall('PUBLISH', 'sluice:1:room', message)
	end
end

-- answer starts a reply: a status, the time and a number that depends on the
-- status. Results follow, one for each demand.
local function answer(status, t, number)
	return write('<Bdd', status, t, number)
end

local FITS, HELD = 1, 2

-- result is the part of a result that receipts keep, and more the rest of it:
-- how much is held, and how much of a refund has come back.
local function result(pl, flags, consumed, retry)
	local p, s, v = pl.spec, pl.state, pl.view
	return write('<Bdddd', flags, consumed, remaining(p, v), retry == NEVER and -1 or retry, resetIn(p, s, v))
end

local function more(pl, returned)
	return write('<dd', pl.view.held, returned)
end
