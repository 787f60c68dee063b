-- Resetting: the name
local function resets()
	for i = 2, #ARGV do
		local k, name = keyOf(i), ARGV[i]
		local version = foreign(k)
		if version then
			return answer(FOREIGN, now, version)
		end
		local b = find(records[k], name)
		if b then
			local s = decode(b)
			local p = own(s)
			local pl = {k = k, name = name, spec = p, state = s, view = view(p, s, now)}
			reset(p, s, pl.view)
			keep(pl)
			freed(pl)
			records[k].grown = true -- so that full neighbours go, too, and the key with them
		end
	end
	return answer(1, now, 0)
end
