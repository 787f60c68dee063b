-- change consumes n, or refunds what was taken at since if it is negative, and
-- answers by how much that changed net consumption.
local function change(pl, n, since)
	local p, s, v = pl.spec, pl.state, pl.view
	if n > 0 then
		n = consume(p, s, v, n)
		keep(pl)
	elseif n < 0 then
		n = -refund(p, s, v, -n, since)
		if n ~= 0 then
			keep(pl)
			freed(pl)
		end
	end
	return n
end

local function adjust()
	local all, status, detail = demands(2, #ARGV)
	if not all then
		return answer(status, now, detail)
	end
	local out = {answer(1, latest(all), 0)}
	for i, pl in ipairs(all) do
		local n = change(pl, pl.cost, pl.view.now)
		out[i + 1] = result(pl, FITS, n, 0)
	end
	return table.concat(out)
end
