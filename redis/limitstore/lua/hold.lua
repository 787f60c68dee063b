-- closeHold ends a hold or takes a ticket out, under the limit that its bucket
-- has, and answers what became free, or that of a ticket something may have. One
-- that is unknown or expired is ignored.
local function closeHold(k, name, id, spent)
	local b = find(records[k], name)
	if not b then
		return 0
	end
	local p, s, v = current(b)
	if isAbsent(s, v) then
		return 0
	end
	local free
	if leave(s, v, id) then
		free = 1
	else
		free = giveBack(p, s, v, id, spent)
	end
	if free then
		keep({k = k, name = name, spec = p, state = s, view = v})
	end
	return free or 0
end

-- foreign reads the record of the key numbered k, for those who need no place.
-- It answers the version if that is another one.
local function foreign(k)
	local version
	if not records[k] then
		records[k], version = readRecord(raws[k])
	end
	return version
end

-- Holding: for each request a demand, and then
--   least, most, life, spent, id, id of the one before  '<dddd', 16 bytes each
local function holds()
	local out = {answer(1, now, 0), unpack(granted)} -- the fast grants first
	for i = first, last, 2 do
		local least, most, life, spent = read('<dddd', ARGV[i + 1])
		local id, previous = sub(ARGV[i + 1], 33, 48), sub(ARGV[i + 1], 49, 64)
		local k, demand, back = keyOf(i), parse(ARGV[i])[1], 0
		local version = foreign(k)
		if version then
			return answer(FOREIGN, now, which(i - 1, version))
		end
		if previous ~= NOID then
			back = closeHold(k, demand.name, previous, spent)
		end
		local pl, status, detail = place(k, demand, true)
		if not pl then
			return answer(status, now, detail)
		end
		local p, s, v = pl.spec, pl.state, pl.view
		local flags, retry, expires = isRecalled(s, v) and 1 or 0, 0, 0
		local amount = grantable(p, s, v, least, most)
		if amount > 0 then
			expires = hold(p, s, v, id, amount, v.now + life)
			keep(pl)
		else
			retry = holdableIn(p, s, v, least)
			if (p.alg == TOKENS or p.alg == FIXED) and forHeld(p, v, least) then
				flags = flags + HELD
			end
		end
		if back > amount then
			freed(pl)
		end
		out[#out + 1] = write('<Bdddddd', flags, amount, remaining(p, pl.view), expires, v.now,
			retry == NEVER and -1 or retry, free(p, pl.view))
	end
	return table.concat(out)
end

-- Returning: spent, id, name  '<d' and 16 bytes
local function returns()
	for i = first, last do
		local k, spent = keyOf(i), read('<d', ARGV[i])
		local version = foreign(k)
		if version then
			return answer(FOREIGN, now, which(i - 1, version))
		end
		local name = sub(ARGV[i], 25)
		if closeHold(k, name, sub(ARGV[i], 9, 24), spent) > 0 then
			freed({k = k, name = name})
		end
	end
	return answer(1, now, 0)
end
