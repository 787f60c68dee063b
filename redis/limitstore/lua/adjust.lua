-- change consumes n, or refunds what was taken at taken if it is negative. It
-- answers by how much that changed net consumption, and what came back.
local function change(pl, n, taken)
	local p, s, v = pl.spec, pl.state, pl.view
	local returned = 0
	if n > 0 then
		n = consume(p, s, v, n)
		keep(pl)
	elseif n < 0 then
		returned = refund(p, s, v, -n, taken)
		keep(pl)
		if returned > 0 then
			freed(pl)
		end
	end
	return n, returned
end

local function adjust()
	local all, status, detail = demands(2, #ARGV)
	if not all then
		return answer(status, now, detail)
	end
	local out = {answer(1, latest(all), 0)}
	for i, pl in ipairs(all) do
		local n, returned = change(pl, pl.cost, pl.view.now)
		out[i + 1] = result(pl, FITS, n, 0) .. more(pl, returned)
	end
	return table.concat(out)
end
