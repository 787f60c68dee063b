-- Tickets, as in package bucket. A state has none, or a list in the order in
-- which they are served. A ticket is kept as
--   id, rank, cost, expires  16 bytes and '<ddd'
local TICKET = 40 -- bytes
local TICKETLIFE = 5000000
local MAXTICKETS = 256

local function readTickets(text)
	if text == '' then
		return nil
	end
	local tickets = {}
	for at = 1, #text, TICKET do
		local rank, cost, expires = read('<ddd', text, at + 16)
		tickets[#tickets + 1] = {id = sub(text, at, at + 15), rank = rank, cost = cost, expires = expires}
	end
	return tickets
end

local function writeTickets(tickets)
	local out = {}
	for i, t in ipairs(tickets or {}) do
		out[i] = t.id .. write('<ddd', t.rank, t.cost, t.expires)
	end
	return table.concat(out)
end

-- Ticket.order: whether a is before b. Strings are not compared as such,
-- because that depends on the server's locale.
local function isBefore(a, b)
	if a.rank ~= b.rank then
		return a.rank < b.rank
	end
	for at = 1, 13, 4 do
		local m, n = read('>I4', a.id, at), read('>I4', b.id, at)
		if m ~= n then
			return m < n
		end
	end
	return false
end

-- sameNode reports whether two ids are of one node: their first half.
local function sameNode(a, b)
	return sub(a, 1, 8) == sub(b, 1, 8)
end

-- State.stand
local function stand(s, v, mine)
	v.ahead, v.tickets, v.aheadEnds, v.ticketsEnd = 0, 0, 0, 0
	for _, t in ipairs(s.tickets or {}) do
		if t.expires > v.now then
			v.tickets, v.ticketsEnd = v.tickets + 1, max(v.ticketsEnd, t.expires)
			if not mine or not sameNode(t.id, mine.id) and isBefore(t, mine) then
				v.ahead = min(v.ahead + t.cost, 1e15) -- sluice.MaxTokens
				v.aheadEnds = v.aheadEnds == 0 and t.expires or min(v.aheadEnds, t.expires)
			end
		end
	end
end

-- State.removeTicket. It answers whether that of the id was there.
local function removeTicket(s, v, id)
	local kept, there = {}, false
	for _, t in ipairs(s.tickets or {}) do
		if t.expires > v.now and t.id ~= id then
			kept[#kept + 1] = t
		else
			there = there or t.expires > v.now
		end
	end
	s.tickets = #kept > 0 and kept or nil
	return there
end

-- Spec.Stand
local function standAs(s, v, id, rank)
	local mine = {id = id, rank = v.now + rank}
	for _, t in ipairs(s.tickets or {}) do
		if t.id == id and t.expires > v.now then
			mine.rank = t.rank
		end
	end
	stand(s, v, mine)
	return mine
end

-- Spec.Queue
local function queue(s, v, mine, cost)
	local tickets = {}
	for _, t in ipairs(s.tickets or {}) do
		if t.expires > v.now and not sameNode(t.id, mine.id) then
			tickets[#tickets + 1] = t
		end
	end
	s.tickets = #tickets > 0 and tickets or nil
	if #tickets >= MAXTICKETS then
		return
	end
	local at = 1
	while tickets[at] and isBefore(tickets[at], mine) do
		at = at + 1
	end
	table.insert(tickets, at, {id = mine.id, rank = mine.rank, cost = cost, expires = v.now + TICKETLIFE})
	s.tickets = tickets
end

-- Spec.Leave
local function leave(s, v, id)
	for _, t in ipairs(s.tickets or {}) do
		if t.id == id and t.expires > v.now then
			return removeTicket(s, v, id)
		end
	end
	return false
end
