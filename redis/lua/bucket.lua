-- What follows mirrors package bucket, function by function; the reasons are
-- there. A state and its view stay apart: only commit writes one to the other.

local MAX = 1e15 -- sluice.MaxTokens
local MOST = 2 ^ 53 - 1
local NEVER = math.huge
local PARTS, RING = 32, 33
local MAXHOLDS = 256

local function saturate(n)
	return min(max(n, -MOST), MOST)
end

-- quotient and remainder, rounded towards minus infinity
local function divide(a, b)
	local rest = a % b
	return (a - rest) / b, rest
end

-- Spec.refill and Spec.Refill
local function refill(p, v, t)
	local elapsed = t - v.time
	v.time = t
	if v.used == 0 then
		v.rem = 0
		return
	end
	local periods, rest = divide(elapsed, p.period)
	if periods > floor(v.used / p.amount) then
		v.used, v.rem = 0, 0
		return
	end
	local back
	back, v.rem = divide(rest * p.amount + v.rem, p.period)
	v.used = v.used - periods * p.amount - back
	if v.used <= 0 then
		v.used, v.rem = 0, 0
	end
end

-- Spec.RepayIn
local function repayIn(p, v, n)
	if n <= 0 then
		return 0
	end
	local whole, rest = divide(n, p.amount)
	if whole > floor(FOREVER / p.period) then
		return FOREVER
	end
	return min(whole * p.period + ceil((rest * p.period - v.rem) / p.amount), FOREVER)
end

-- Spec.viewTokens
local function viewTokens(p, s, t)
	local v = {now = max(t, s.time), used = s.used, rem = s.rem, time = s.time, held = 0}
	for _, h in ipairs(s.holds or {}) do
		if h.expires > v.now then
			v.held = v.held + h.amount
		else
			refill(p, v, max(h.expires, v.time))
			v.used = v.used + h.amount
		end
	end
	refill(p, v, v.now)
	return v
end

-- Spec.untilTokens
local function untilTokens(p, s, v, target)
	local w = {now = v.now, used = v.used, rem = v.rem, time = v.time}
	local held, i = v.held, 0
	while held > 0 do
		i = i + 1
		local h = s.holds[i]
		if h.expires > v.now then
			local excess = w.used + held - target
			if excess <= w.used then
				local wait = repayIn(p, w, excess)
				if w.now + wait <= h.expires then
					return w.now + wait - v.now
				end
			end
			w.now = h.expires
			refill(p, w, w.now)
			w.used, held = w.used + h.amount, held - h.amount
		end
	end
	return w.now + repayIn(p, w, w.used - target) - v.now
end

-- Spec.Window. Lua knows no time zones: the node sends the boundaries of some
-- calendar windows. If none fits, the answer is nothing.
local function window(p, s, t)
	if p.calendar == 0 then
		local start = t - t % p.period
		return start, start + p.period
	end
	if s.stop and s.time <= t and t < s.stop then
		return s.time, s.stop
	end
	local w = p.windows
	for i = 1, #w - 1 do
		if w[i] <= t and t < w[i + 1] then
			return w[i], w[i + 1]
		end
	end
end

-- Spec.viewFixed
local function viewFixed(p, s, t)
	local v = {now = max(t, s.time), used = 0, rem = 0, held = 0}
	v.time, v.stop = window(p, s, v.now)
	if s.time ~= v.time then
		return v
	end
	v.used = s.used
	for _, h in ipairs(s.holds or {}) do
		if h.expires > v.now then
			v.held = v.held + h.amount
		else
			v.used = v.used + h.amount
		end
	end
	return v
end

-- Spec.part and Spec.partStart
local function part(p, t)
	local whole, rest = divide(t, p.period)
	return whole * PARTS + floor(rest * PARTS / p.period)
end

local function partStart(p, i)
	local whole, rest = divide(i, PARTS)
	return whole * p.period + ceil(rest * p.period / PARTS)
end

-- Spec.viewSliding. Counts are found by their part's number, not in a ring.
local function viewSliding(p, s, t)
	local v = {now = t, used = 0, rem = 0, time = part(p, t), held = 0}
	if not s.counts then
		return v
	end
	if v.time < s.time then
		v.time, v.now = s.time, partStart(p, s.time)
	end
	if v.time == s.time then
		v.used = s.used
		return v
	end
	for i = v.time - PARTS, s.time do
		v.used = v.used + (s.counts[i] or 0)
	end
	return v
end

-- Spec.untilSliding
local function untilSliding(p, s, v, target)
	local used, i = v.used, v.time - PARTS
	while true do
		used = used - (s.counts[i] or 0)
		if used <= target then
			return partStart(p, i + RING) - v.now
		end
		i = i + 1
	end
end

-- Spec.viewFlights. Flights stay packed: id, cost and expires of each, in order
-- of expiry. v.gone is how many bytes of them have expired.
local function viewFlights(p, s, t)
	t = max(t, s.time)
	local v = {now = t, used = s.used, rem = 0, time = t, held = 0, gone = 0}
	local flights = s.flights or ''
	while v.gone < #flights do
		local cost, expires = read('<dd', flights, v.gone + 17)
		if expires > t then
			break
		end
		v.used, v.gone = v.used - cost, v.gone + ENTRY
	end
	return v
end

-- untilFlights
local function untilFlights(s, v, target)
	if target == 0 then -- the last one
		return read('<d', s.flights, #s.flights - 7) - v.now
	end
	local used = v.used
	for at = v.gone, #s.flights - ENTRY, ENTRY do
		local cost, expires = read('<dd', s.flights, at + 17)
		used = used - cost
		if used <= target then
			return expires - v.now
		end
	end
	return 0
end

-- Spec.View. It has no time if it would need a calendar window that the node
-- has not sent.
local function view(p, s, t)
	local v
	if p.alg == TOKENS then
		v = viewTokens(p, s, t)
	elseif p.alg == FIXED then
		v = viewFixed(p, s, t)
	elseif p.alg == SLIDING then
		v = viewSliding(p, s, t)
	else
		v = viewFlights(p, s, t)
	end
	v.behind = v.now - t
	stand(s, v)
	return v
end

-- View.Remaining, View.Free and View.Available
local function remaining(p, v)
	return p.capacity - v.used
end

local function free(p, v)
	return p.capacity - v.used - v.held
end

local function available(p, v)
	return p.capacity - v.used - v.held - v.ahead
end

-- Spec.until
local function wait(p, s, v, target)
	local t
	if p.alg == TOKENS then
		t = untilTokens(p, s, v, target)
	elseif p.alg == FIXED then
		t = v.stop - v.now
	elseif p.alg == SLIDING then
		t = untilSliding(p, s, v, target)
	else
		t = untilFlights(s, v, target)
	end
	return min(t, FOREVER)
end

-- View.later
local function since(v, t)
	if t == 0 or t == NEVER then
		return t
	end
	return min(t + v.behind, FOREVER)
end

-- Spec.retryIn and Spec.RetryIn
local function retryFrom(p, s, v, cost)
	if cost <= available(p, v) then
		return 0
	elseif cost > p.capacity then
		return NEVER
	end
	if v.ahead > 0 then
		if p.alg == TOKENS then
			v = {now = v.now, used = v.used + v.ahead, rem = v.rem, time = v.time, held = v.held}
		elseif cost <= free(p, v) then
			return v.aheadEnds - v.now
		end
	end
	return wait(p, s, v, p.capacity - cost)
end

local function retryIn(p, s, v, cost)
	return since(v, retryFrom(p, s, v, cost))
end

-- Spec.ResetIn
local function resetIn(p, s, v)
	if v.used == 0 and v.held == 0 then
		return 0
	end
	return since(v, wait(p, s, v, 0))
end

-- Spec.commitHolds
local function commitHolds(p, s, v)
	local sameWindow = p.alg ~= FIXED or s.time == v.time
	local kept = {}
	for _, h in ipairs(s.holds) do
		if h.expires > v.now and sameWindow then
			kept[#kept + 1] = h
		else
			s.consumed = saturate(s.consumed + h.amount)
		end
	end
	s.holds = kept
end

-- Spec.commit
local function commit(p, s, v)
	if p.alg == SLIDING then
		s.counts = s.counts or {}
	elseif p.alg == CONCURRENCY then
		s.flights = sub(s.flights or '', v.gone + 1)
		v.gone = 0
	elseif s.holds then
		commitHolds(p, s, v)
	end
	s.used, s.rem, s.time, s.stop = v.used, v.rem, v.time, v.stop
	if s.tickets then
		removeTicket(s, v)
	end
end

-- Spec.Take
local function consume(p, s, v, cost)
	cost = max(0, min(cost, p.capacity + MAX - v.used))
	commit(p, s, v)
	s.used = s.used + cost
	if s.holds and cost >= s.recallCost then
		s.recalled, s.recallCost = 0, 0
	end
	if p.alg == SLIDING then
		s.counts[v.time] = (s.counts[v.time] or 0) + cost
	end
	s.consumed = saturate(s.consumed + cost)
	return cost
end

-- Spec.Refund
local function refund(p, s, v, amount, taken)
	s.consumed = max(s.consumed - amount, 0)
	amount = min(amount, v.used)
	if amount <= 0 or p.alg == SLIDING and part(p, taken) < v.time - PARTS or p.alg == FIXED and taken < v.time then
		return 0
	end
	commit(p, s, v)
	if p.alg == SLIDING then
		local left, i = amount, v.time
		while left > 0 do
			local n = min(left, s.counts[i] or 0)
			if n > 0 then
				s.counts[i], left = s.counts[i] - n, left - n
			end
			i = i - 1
		end
	end
	s.used = s.used - amount
	if s.used == 0 then
		s.rem = 0
	end
	return amount
end

-- Spec.Reset
local function reset(p, s, v)
	commit(p, s, v)
	s.used, s.rem, s.consumed = 0, 0, 0
	s.counts, s.flights = {}, ''
	s.recalled, s.recallCost = 0, 0
end

-- Spec.Adopt. It answers the new state, or nothing and the time for which a
-- calendar window is missing.
local function adopt(p, s, from, t)
	local v = view(from, s, t)
	commit(from, s, v)
	if from.alg == TOKENS and p.alg == TOKENS then
		s.time = v.now - min(floor(s.rem / from.amount), floor(p.period / p.amount))
		s.rem = 0
		return s
	end
	if from.alg == p.alg and from.period == p.period and from.calendar == p.calendar and from.zone == p.zone then
		return s
	end
	if from.alg == CONCURRENCY or p.alg == CONCURRENCY then
		return {used = 0, rem = 0, time = 0, consumed = s.consumed, tickets = s.tickets}
	end
	local used, consumed = s.used + v.held, saturate(s.consumed + v.held)
	s = {used = 0, rem = 0, time = 0, consumed = 0, tickets = s.tickets}
	if used > 0 then
		local w = view(p, s, v.now)
		if not w.time then
			return nil, w.now
		end
		consume(p, s, w, used)
	end
	s.consumed = consumed
	return s
end

-- insertFlight
local function insertFlight(s, id, cost, expires)
	local at = #s.flights
	while at > 0 and read('<d', s.flights, at - 7) > expires do
		at = at - ENTRY
	end
	s.flights = sub(s.flights, 1, at) .. id .. write('<dd', cost, expires) .. sub(s.flights, at + 1)
end

-- Spec.Board
local function board(p, s, v, id, cost, expires)
	commit(p, s, v)
	s.used = s.used + cost
	s.consumed = saturate(s.consumed + cost)
	insertFlight(s, id, cost, expires)
end

-- Spec.Alight
local function alight(p, s, v, id)
	local flights, at = s.flights or '', v.gone
	repeat
		at = string.find(flights, id, at + 1, true)
	until not at or at % ENTRY == 1
	if not at then
		return 0
	end
	local cost = read('<d', flights, at + 16)
	s.flights = sub(flights, 1, at - 1) .. sub(flights, at + ENTRY)
	v.used = v.used - cost
	commit(p, s, v)
	return cost
end

-- Spec.Extend
local function extend(p, s, v, id, expires)
	local cost = alight(p, s, v, id)
	if cost > 0 then
		s.used = s.used + cost
		insertFlight(s, id, cost, expires)
	end
end

-- State.Recalled
local function isRecalled(s, v)
	return v.tickets > 0 or s.holds ~= nil and s.recalled > v.now
end

-- Spec.Grantable
local function grantable(p, s, v, least, most)
	local n = min(most, available(p, v))
	if p.alg ~= TOKENS and p.alg ~= FIXED or n <= 0 or n < least or isRecalled(s, v) then
		return 0
	elseif s.holds and #s.holds >= MAXHOLDS and s.holds[#s.holds - MAXHOLDS + 1].expires > v.now then
		return 0
	end
	return n
end

-- Spec.HoldableIn
local function holdableIn(p, s, v, least)
	if p.alg ~= TOKENS and p.alg ~= FIXED then
		return NEVER
	end
	local t = max(retryFrom(p, s, v, least), v.ticketsEnd - v.now)
	if s.holds and s.recalled > v.now then
		t = max(t, s.recalled - v.now)
	end
	if s.holds and #s.holds >= MAXHOLDS then
		t = max(t, s.holds[1].expires - v.now)
	end
	return since(v, t)
end

-- Spec.Hold
local function hold(p, s, v, id, amount, expires)
	if p.alg == FIXED then
		expires = min(expires, v.stop)
	end
	commit(p, s, v)
	if not s.holds then
		s.holds, s.recalled, s.recallCost = {}, 0, 0
	end
	local at = #s.holds + 1
	while at > 1 and s.holds[at - 1].expires > expires do
		at = at - 1
	end
	table.insert(s.holds, at, {id = id, amount = amount, expires = expires})
	return expires
end

-- Spec.Return. It answers what became free, or nothing if there is no such
-- hold; then the state must not be kept.
local function giveBack(p, s, v, id, spent)
	if not s.holds then
		return nil
	end
	commit(p, s, v)
	for i, h in ipairs(s.holds) do
		if h.id == id then
			spent = min(max(spent, 0), h.amount)
			table.remove(s.holds, i)
			s.used = s.used + spent
			s.consumed = saturate(s.consumed + spent)
			return h.amount - spent
		end
	end
	return nil
end

-- View.ForHeld
local function forHeld(p, v, cost)
	return cost > available(p, v) and cost <= remaining(p, v)
end

-- Spec.Recall
local function recall(p, s, v, cost)
	if v.held == 0 or not forHeld(p, v, cost) then
		return false
	end
	local till = v.now + retryFrom(p, s, v, cost)
	if s.recalled > v.now then
		till, cost = max(till, s.recalled), max(cost, s.recallCost)
	end
	s.recalled, s.recallCost = till, cost
	return true
end
