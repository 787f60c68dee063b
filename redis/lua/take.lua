-- Takes: the general case. storetest.Model says how it should be.
local TOKEN = 1000

-- asks fills in what a take wants of each place.
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
		return
	end
	if n < charge then
		n = max(n, 0)
		n = n - n % TOKEN
	end
	for _, pl in ipairs(all) do
		pl.ask = n > 0 and n or min(charge, TOKEN)
	end
end

-- ahead is how long to wait for what is taken before it is there, or nothing.
local function ahead(pl, o)
	local p, v = pl.spec, pl.view
	if o.within <= 0 or o.upTo or p.alg ~= TOKENS or has(pl.flags, SHADOW) or v.used + pl.ask > p.capacity + MAX then
		return nil
	end
	local t = retryIn(p, pl.state, v, pl.ask)
	return t <= o.within and t or nil
end

-- decide fills in whether each place fits, and answers whether the take is
-- allowed and the delay of one taken ahead.
local function decide(all, o)
	asks(all, o.upTo)
	local allowed, delay = not o.refuse, 0
	for _, pl in ipairs(all) do
		pl.fits = pl.ask <= available(pl.spec, pl.view)
		pl.held = forHeld(pl.spec, pl.view, pl.ask)
		if not pl.fits then
			local t = ahead(pl, o)
			if t then
				pl.fits, pl.held, delay = true, false, max(delay, t)
			end
		end
		allowed = allowed and (pl.fits or has(pl.flags, SHADOW))
	end
	return allowed, delay
end

-- charge consumes what a take does, and answers how much that is.
local function charge(pl, allowed, o, expires)
	local p, s, v = pl.spec, pl.state, pl.view
	local n = 0
	if allowed and pl.fits then
		n = pl.ask
	elseif not allowed and has(pl.flags, COUNTREFUSED) and p.alg ~= CONCURRENCY then
		n = pl.cost
	elseif not allowed and not pl.fits and not has(pl.flags, SHADOW) and recall(p, s, v, pl.ask) then
		keep(pl)
	end
	if n > 0 then
		if p.alg == CONCURRENCY then
			board(p, s, v, o.flight, n, expires)
		else
			n = consume(p, s, v, n)
		end
		keep(pl)
	end
	return n
end

-- take decides on all places together. It answers the reply, whether there
-- was an effect, the time and the delay.
local function take(all, o)
	local allowed, delay = decide(all, o)
	local t, effect = latest(all), allowed
	local out = {answer(allowed and 1 or 0, t, allowed and delay or 0)}
	for i, pl in ipairs(all) do
		pl.charge = o.peek and 0 or charge(pl, allowed, o, t + delay + o.keep)
		effect = effect or pl.charge ~= 0
		local retry = pl.fits and 0 or retryIn(pl.spec, pl.state, pl.view, pl.ask)
		out[i + 1] = result(pl, (pl.fits and FITS or 0) + (pl.held and HELD or 0), pl.charge, retry)
	end
	return table.concat(out), effect, t, delay
end

-- plainTake is a take without options.
local function plainTake(first, last)
	local all, status, detail = demands(first, last)
	if not all then
		return answer(status, now, detail)
	end
	return (take(all, {within = 0, keep = 0}))
end

-- fullTake is a take with options:
--   kind, time, options, within, keep, print, id of its flights  '<BdBdd'
-- One with an id has the key of its receipt after those of its buckets. A PART
-- of a take over several slots that was given up is not taken any more.
local LEASE, PEEK, UPTO, REFUSE, PART = 1, 2, 4, 8, 16
local REPEATED = 16

local function fullTake()
	local options, within, life = read('<Bdd', header, 10)
	local print, id = sub(header, 27, 42), nil
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
			local status = byte(r.reply)
			local _, _, delay = read('<Bdd', r.reply)
			return answer(status + REPEATED, now, min(delay, max(r.due - now, 0))) .. sub(r.reply, 18)
		end
	end
	local all, status, detail = demands(2, #ARGV)
	if not all then
		return answer(status, now, detail)
	end
	local o = {
		within = within, keep = life, flight = sub(header, 43, 58),
		peek = has(options, PEEK), upTo = has(options, UPTO), refuse = has(options, REFUSE),
	}
	local reply, effect, t, delay = take(all, o)
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
			lease = has(options, LEASE) and byte(reply) == 1, ended = OPEN, taken = t, due = t + delay,
			expires = t + delay + life, print = print, flight = o.flight, reply = reply,
		}
		values[1] = {key = KEYS[id], value = writeReceipt(r, parts), expires = r.expires}
	end
	return reply
end
