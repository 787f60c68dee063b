-- Looks at a part of a take and at what its key holds, which is simple as long
-- as the limits are the same and there are no holds.
if arg ~= previous then
	digest, [[cost@]], [[amount@, period@, capacity@]] = read('<d[[d]][[ddd]]', arg, 3 + 2 * n)
	previous = arg
end
local [[used@, rem@, time@, consumed@]] = [[0, 0, now, 0]]
if before then
	if before ~= arg and read('<d', before, 3 + 2 * n) ~= digest then
		simple = false
	elseif states[k] then
		[[used@, rem@, time@, consumed@]] = read('<x[[dddd]]', states[k])
	elseif raw then
		[[used@, rem@, time@, consumed@]] = read('<[[dddd]]', raw, 20)
	end
elseif raw then
	local version, till, known = 0, 0, nil
	if #raw == #arg + 9 + 22 * n then
		version, till, known, [[used@, rem@, time@, consumed@]] = read('<Bddxx[[dddd]]', raw)
	end
	simple = version == VERSION and known == digest
	args[k], lives[k] = arg, till
else
	args[k], lives[k] = arg, 0
end
