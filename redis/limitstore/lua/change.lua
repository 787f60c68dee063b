-- What changes a state; the rest of package bucket.

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
		s.holders = sub(s.holders or '', v.gone + 1)
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
		while left > 0 and i >= v.time - PARTS do
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
	s.counts, s.holders = {}, ''
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

-- insertHolder
local function insertHolder(s, id, cost, expires)
	local at = #s.holders
	while at > 0 and read('<d', s.holders, at - 7) > expires do
		at = at - ENTRY
	end
	s.holders = sub(s.holders, 1, at) .. id .. write('<dd', cost, expires) .. sub(s.holders, at + 1)
end

-- Spec.Board
local function board(p, s, v, id, cost, expires)
	commit(p, s, v)
	s.used = s.used + cost
	s.consumed = saturate(s.consumed + cost)
	insertHolder(s, id, cost, expires)
end

-- Spec.Alight
local function alight(p, s, v, id)
	local holders, at = s.holders or '', v.gone
	repeat
		at = string.find(holders, id, at + 1, true)
	until not at or at % ENTRY == 1
	if not at then
		return 0
	end
	local cost = read('<d', holders, at + 16)
	s.holders = sub(holders, 1, at - 1) .. sub(holders, at + ENTRY)
	v.used = v.used - cost
	commit(p, s, v)
	return cost
end

-- Spec.Extend
local function extend(p, s, v, id, expires)
	local cost = alight(p, s, v, id)
	if cost > 0 then
		s.used = s.used + cost
		insertHolder(s, id, cost, expires)
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
