-- A receipt is what is kept of a take that has an id and had an effect: what
-- to answer to a repetition and, for a lease, what was charged.
--   version, lease, ended, taken, due, expires  '<BBBddd'; due is taken
--   print of the demands, id of its holders     16 bytes each
--   length of the reply, the reply              '<I4'
--   for each key:
--     lengths of key and argument, both         '<I4I4'
--     of each demand: consumed at first, cost   '<dd'
local OPEN, RENEW, COMMIT, RELEASE = 0, 1, 2, 3 -- sluice.Action

-- readParts reads what was charged where.
local function readParts(rest)
	local parts, at = {}, 1
	while at <= #rest do
		local a, b = read('<I4I4', rest, at)
		local pt = {key = sub(rest, at + 8, at + 7 + a), arg = sub(rest, at + 8 + a, at + 7 + a + b)}
		at = at + 8 + a + b
		for d = 1, byte(pt.arg, 2) do
			local first, cost
			first, cost, at = read('<dd', rest, at)
			pt[d] = {first = first, cost = cost}
		end
		parts[#parts + 1] = pt
	end
	return parts
end

-- readReceipt answers nothing, or nothing and the version if it cannot be read.
local function readReceipt(raw)
	if not raw then
		return nil
	end
	local n = byte(raw) == VERSION and #raw >= 63 and read('<I4', raw, 60)
	local ok, parts = pcall(readParts, n and sub(raw, 64 + n))
	if not ok or 63 + n > #raw then
		return nil, byte(raw) or 0
	end
	local _, lease, ended, taken, due, expires = read('<BBBddd', raw)
	return {
		lease = lease == 1, ended = ended, taken = taken, due = due, expires = expires,
		print = sub(raw, 28, 43), holder = sub(raw, 44, 59), reply = sub(raw, 64, 63 + n), parts = parts,
	}
end

local function writeReceipt(r, parts)
	local out = {
		write('<BBBddd', VERSION, r.lease and 1 or 0, r.ended, r.taken, r.due, r.expires),
		r.print, r.holder, write('<I4', #r.reply), r.reply,
	}
	for _, pt in ipairs(parts) do
		out[#out + 1] = write('<I4I4', #pt.key, #pt.arg) .. pt.key .. pt.arg
		for _, e in ipairs(pt) do
			out[#out + 1] = write('<dd', e.first, e.cost)
		end
	end
	return table.concat(out)
end
