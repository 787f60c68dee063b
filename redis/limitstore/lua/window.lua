-- Decides a take of one fixed window that is all its key has. Its reply is of
-- the general kind.
local at = max(now, time1)
local start = at - at % period1
local stop = start + period1
if time1 ~= start then
	used1 = 0
end
if used1 == 0 then -- full means absent
	consumed1 = 0
end
local fits, charge, retry = used1 + cost1 <= capacity1, 0, 0
if fits then
	charge = cost1
else
	retry = cost1 > capacity1 and -1 or min(stop - now, 2 ^ 52)
	if byte(arg, 3) == COUNTREFUSED then
		charge = max(0, min(cost1, capacity1 + 1e15 - used1))
	end
end
if charge > 0 then
	used1, full = used1 + charge, stop
	state = write('<Bdddd', ALLOWED, used1, stop, start, min(consumed1 + charge, 2 ^ 53 - 1))
end
local yes = fits and 1 or 0
reply = write('<BddBdddddd', yes, at, 0, yes, charge, capacity1 - used1, retry, used1 > 0 and min(stop - now, 2 ^ 52) or 0, 0, 0)
