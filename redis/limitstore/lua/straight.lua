-- Decides on what a key holds of so many token buckets. There is no state if
-- that is for the general case.
local known, [[cost@]], [[amount@, period@, capacity@]] = read('<d[[d]][[ddd]]', one, 3 + 2 * count)
local version, [[used@, rem@, time@, consumed@]] = VERSION, [[0, 0, now, 0]]
digest = known
if raw then
	digest = nil
	if #raw == #one + 9 + 22 * count then
		version, lives, digest, [[used@, rem@, time@, consumed@]] = read('<Bddxx[[dddd]]', raw)
	end
end
if digest == known and version == VERSION then
	--include decide
end
