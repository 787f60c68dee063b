-- The kinds of calls.
local kinds = {fullTake, adjust, settle, resets, holds, returns}
if kind > 0 then
	out[1] = kinds[kind]()
	local status = byte(out[1]) % REPEATED
	if status > 1 then -- neither a decision nor done: nothing has happened
		return out[1]
	end
end
while plain and first <= last do -- those left by takes.lua
	local to = first
	while not has(byte(argOf(to)), LAST) do
		to = to + 1
	end
	out[#out + 1] = plainTake(first, to)
	first = to + 1
end
flush()
return table.concat(out)
