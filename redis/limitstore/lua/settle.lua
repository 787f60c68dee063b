-- Settling a lease:
--   kind, time, action, life, how  '<BdBdB'
-- The first key is its receipt's; the keys of the buckets are in the receipt.
-- Arguments are costs, '<d' and the limit's name; or the windows of a calendar
-- limit, with a cost of -1, '<ddddd' and the limit.
--
-- UNDO is for takes over several slots: it releases the part that was taken in
-- this slot, lease or not, because another slot has refused; what counts even
-- if refused is consumed. If nothing was taken here, or not yet, it leaves a
-- receipt that says so for the take that may still be on its way.
local UNDO = 1

-- forestall has a part that comes later find that its take was given up.
local function forestall(life)
	local r = {
		lease = false, ended = RELEASE, taken = now, due = now, expires = now + life, print = NOID, holder = NOID, reply = '',
	}
	values[1] = {key = KEYS[1], value = writeReceipt(r, {}), expires = r.expires}
	return answer(1, now, 0) .. write('<d', now)
end

-- number is that of a key, which is read if the call has not named it.
local function number(key)
	for k = 1, #KEYS do
		if KEYS[k] == key then
			return k
		end
	end
	local k = #KEYS + 1
	KEYS[k], raws[k] = key, redis.pcall('GET', key)
	if type(raws[k]) == 'table' then
		raws[k] = ''
	end
	return k
end

-- charges are all the demands of a lease, and where they are.
local function charges(parts)
	local all = {}
	for _, pt in ipairs(parts) do
		local k = number(pt.key)
		for d, demand in ipairs(parse(pt.arg)) do
			local e = pt[d]
			e.demand, e.k, e.new = demand, k, e.cost
			all[#all + 1] = e
		end
	end
	return all
end

-- costs fills in what the lease is to cost in each bucket. If it cannot, it
-- answers a status and a number.
local function costs(all, action, how)
	for i = 2, #ARGV do
		local cost, known = read('<d', ARGV[i]), false
		for _, e in ipairs(all) do
			if cost == -1 then
				known = true
				if e.demand.limit == sub(ARGV[i], 41) then
					e.demand.windows = {read('<dddd', ARGV[i], 9)}
					e.demand.windows[5] = nil
				end
			elseif e.demand.name == sub(ARGV[i], 9) then
				known = true
				if byte(e.demand.limit, 33) == CONCURRENCY and cost ~= e.new then
					return FIXEDCOST, i - 2
				elseif e.first > 0 then
					e.new = cost
				end
			end
		end
		if not known then
			return NOLIMIT, i - 2
		end
	end
	for _, e in ipairs(all) do
		if how == UNDO and has(e.demand.flags, COUNTREFUSED) and byte(e.demand.limit, 33) ~= CONCURRENCY then
			e.new, e.first = e.demand.cost, e.demand.cost
		elseif action == RELEASE then
			e.new = 0
		end
	end
end

-- settleOne changes the lease's part in one bucket, and answers by how much
-- net consumption changed, and what came back.
local function settleOne(pl, e, r, action, expires)
	local p, s, v = pl.spec, pl.state, pl.view
	if (byte(e.demand.limit, 33) == CONCURRENCY) ~= (p.alg == CONCURRENCY) then -- it has started anew
		return p.alg == CONCURRENCY and e.new - e.cost or 0, 0
	elseif p.alg ~= CONCURRENCY then
		return change(pl, e.new - e.cost, r.taken)
	elseif action == RENEW then
		extend(p, s, v, r.holder, expires)
		keep(pl)
	elseif action == COMMIT or action == RELEASE then
		local n = alight(p, s, v, r.holder)
		if n > 0 then
			keep(pl)
			freed(pl)
		end
		if action == RELEASE then
			return -n, n
		end
	end
	return 0, 0
end

local function settle()
	local action, life, how = read('<BdB', header, 10)
	local r, version = readReceipt(raws[1])
	if version then
		return answer(FOREIGN, now, version)
	elseif how == UNDO and (not r or r.expires <= now) then
		return forestall(life)
	elseif not r or r.expires <= now or not r.lease and how == 0 or r.ended ~= OPEN and r.ended ~= action then
		return answer(CLOSED, now, 0)
	end
	local parts = r.parts
	local all = charges(parts)
	local again = r.ended ~= OPEN
	if not again then
		local status, detail = costs(all, action, how)
		if status then
			return answer(status, now, detail)
		end
	end
	local found = {}
	for i, e in ipairs(all) do
		local status, detail
		found[i], status, detail = place(e.k, e.demand, false)
		if not found[i] then
			return answer(status, now, detail) .. missing
		end
	end
	local t, expires = latest(found), r.expires
	if action == RENEW then
		expires = t + max(life, 1)
	elseif how == UNDO then
		expires = max(expires, t + life)
	end
	local out = {}
	for i, pl in ipairs(found) do
		local e, n, returned = all[i], 0, 0
		if not again and e.first > 0 then
			n, returned = settleOne(pl, e, r, action, expires)
		end
		e.cost = e.new
		out[i] = result(pl, FITS, n, 0) .. more(pl, returned) .. write('<dB', e.cost, #pl.spec.limit) .. pl.spec.limit
	end
	local names = {}
	for i, pt in ipairs(parts) do
		names[i] = write('<I4I4', #pt.key, #pt.arg) .. pt.key .. pt.arg
	end
	if not again then
		r.expires = expires
		if action == COMMIT or action == RELEASE then
			r.ended = action
		end
		values[1] = {key = KEYS[1], value = writeReceipt(r, parts), expires = expires}
	end
	return answer(1, t, #parts) .. write('<d', r.taken) .. table.concat(names) .. table.concat(out)
end
