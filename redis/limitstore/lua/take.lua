-- Takes: the general case. storetest.Model says how it should be.
local TOKEN = 1000

-- asks fills in what a take wants of each place. It answers how much there is of
-- it for a take up to an amount.
local function asks(all, upTo)
	local charge = all[1].cost
	local n = charge
	for _, pl in ipairs(all) do
		pl.ask = pl.cost
		if not has(pl.flags, SHADOW) then
			n = min(n, available(pl.spec, pl.view))
		end
	end
	if not upTo then
		return 0
	end
	if n < charge then
		n = max(n, 0)
		n = n - n % TOKEN
	end
	for _, pl in ipairs(all) do
		pl.ask = n > 0 and n or min(charge, TOKEN)
	end
	return n
end

-- decide fills in whether each place fits, and answers whether the take is
-- allowed, and what asks did.
local function decide(all, o)
	for _, pl in ipairs(o.ticket and all or {}) do
		pl.ticket = standAs(pl.state, pl.view, o.ticket, o.rank)
	end
	local allowed, n = not o.refuse, asks(all, o.upTo)
	for _, pl in ipairs(all) do
		pl.fits = pl.ask <= available(pl.spec, pl.view)
		pl.held = forHeld(pl.spec, pl.view, pl.ask)
		allowed = allowed and (pl.fits or has(pl.flags, SHADOW))
	end
	return allowed, n
end

-- line puts the take's ticket where it has to wait, and out of where it has
-- not. Those behind one that is taken out without passing may pass now.
local function line(all, allowed, never)
	local waits = not allowed and not never
	for _, pl in ipairs(all) do
		waits = waits and (has(pl.flags, SHADOW) or pl.ask <= pl.spec.capacity)
	end
	for _, pl in ipairs(all) do
		if waits and not pl.fits and not has(pl.flags, SHADOW) then
			queue(pl.state, pl.view, pl.ticket, pl.ask)
			keep(pl)
		elseif leave(pl.state, pl.view, pl.ticket.id) then
			keep(pl)
			if not allowed then
				freed(pl)
			end
		end
	end
end

-- charge consumes what a take does, and answers how much that is.
local function charge(pl, allowed, o, expires)
	local p, s, v = pl.spec, pl.state, pl.view
	local n = 0
	if allowed and pl.fits then
		n = pl.ask
	elseif not allowed and has(pl.flags, COUNTREFUSED) and p.alg ~= CONCURRENCY then
		n = pl.cost
	elseif not allowed and not pl.fits and not has(pl.flags, SHADOW) and (recall(p, s, v, pl.ask) or pl.repaced) then
		keep(pl)
	end
	if n > 0 then
		if p.alg == CONCURRENCY then
			board(p, s, v, o.holder, n, expires)
		else
			n = consume(p, s, v, n)
		end
		keep(pl)
	end
	return n
end

-- take decides on all places together. It answers the reply, in two parts of
-- which receipts keep the first, whether there was an effect, and the time.
local function take(all, o)
	local allowed, n = decide(all, o)
	local t, effect = latest(all), allowed
	local out, rest = {answer(allowed and 1 or 0, t, n)}, {}
	for _, pl in ipairs(all) do
		pl.charge = o.peek and 0 or charge(pl, allowed, o, t + o.keep)
		effect = effect or pl.charge ~= 0
	end
	if o.ticket and not o.peek then
		line(all, allowed, o.never)
	end
	for i, pl in ipairs(all) do
		local retry = pl.fits and 0 or retryIn(pl.spec, pl.state, pl.view, pl.ask)
		out[i + 1] = result(pl, (pl.fits and FITS or 0) + (pl.held and HELD or 0), pl.charge, retry)
		rest[i] = more(pl, 0)
	end
	return table.concat(out), table.concat(rest), effect, t
end

-- plainTake is a take without options.
local function plainTake(first, last)
	local all, status, detail = demands(first, last)
	if not all then
		return answer(status, now, detail)
	end
	local reply, rest = take(all, {keep = 0})
	return reply .. rest
end

-- fullTake is a take with options:
--   kind, time, options, rank, keep    '<BdBdd'
--   print, id of its holders, ticket   16 bytes each
-- One with an id has the key of its receipt after those of its buckets. A PART
-- of a take over several slots that was given up is not taken any more. Another
-- slot may REFUSE a take, or say that it can NEVER pass.
local LEASE, PEEK, UPTO, REFUSE, PART, NEVERPASS = 1, 2, 4, 8, 16, 32
local REPEATED = 16

local function fullTake()
	local options, rank, life = read('<Bdd', header, 10)
	local print, ticket, id = sub(header, 27, 42), sub(header, 59, 74), nil
	if #KEYS >= #ARGV then
		id = #KEYS
		local r, version = readReceipt(raws[id])
		if version then
			return answer(FOREIGN, now, version)
		elseif r and r.expires > now and r.ended == RELEASE and has(options, PART) then
			return answer(CLOSED, now, 0)
		elseif r and r.expires > now and r.ended ~= RELEASE then -- one released never was
			if r.print ~= print then
				return answer(MISMATCH, now, 0)
			end
			return answer(byte(r.reply) + REPEATED, now, 0) .. sub(r.reply, 18)
		end
	end
	local all, status, detail = demands(2, #ARGV)
	if not all then
		return answer(status, now, detail)
	end
	local o = {
		keep = life, holder = sub(header, 43, 58), ticket = ticket ~= NOID and ticket or nil, rank = rank,
		peek = has(options, PEEK), upTo = has(options, UPTO), refuse = has(options, REFUSE),
		never = has(options, NEVERPASS),
	}
	local reply, rest, effect, t = take(all, o)
	if id and effect then
		local parts, n = {}, 0
		for i = 2, #ARGV do
			local pt = {key = KEYS[keyOf(i)], arg = ARGV[i]}
			for d = 1, byte(pt.arg, 2) do
				n = n + 1
				pt[d] = {first = all[n].charge, cost = all[n].charge}
			end
			parts[#parts + 1] = pt
		end
		local r = {
			lease = has(options, LEASE) and byte(reply) == 1, ended = OPEN, taken = t, due = t,
			expires = t + life, print = print, holder = o.holder, reply = reply,
		}
		values[1] = {key = KEYS[id], value = writeReceipt(r, parts), expires = r.expires}
	end
	return reply .. rest
end
