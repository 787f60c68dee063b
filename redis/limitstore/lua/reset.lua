-- Resetting: the name
local function resets()
	for i = 2, #ARGV do
		local k, name = keyOf(i), ARGV[i]
		local version = foreign(k)
		if version then
			return answer(FOREIGN, now, which(i - 1, version))
		end
		local b = find(records[k], name)
		if b then
			local p, s, v, over = current(b)
			if over then
				s.consumed = 0
			else
				reset(p, s, v)
			end
			local pl = {k = k, name = name, spec = p, state = s, view = v}
			keep(pl)
			freed(pl)
			records[k].grown = true -- so that full neighbours go, too, and the key with them
		end
	end
	return answer(1, now, 0)
end
