-- Decides a take of one fixed window that is all its key has. Its reply is of
-- the general kind. It is included where a call would cost too much.
local arg, k = ARGV[first], byte(ARGV[1], numbers + first)
local _, _, demand, _, cost, _, _, _, _, _, period, capacity = read('<BBBBdBBBBddd', arg)
local raw, limits = raws[k], sub(arg, 13)
local used, at, consumed, time = 0, now, 0, nil
if raw then
	if byte(raw) ~= VERSION or byte(raw, 10) ~= 1 or sub(raw, 43) ~= limits then
		simple = false
		break
	end
	used, _, time, consumed = read('<dddd', raw, 11)
	at = max(now, time)
end
local start = at - at % period
local stop = start + period
if time ~= start then
	used, consumed = 0, 0
end
local fits, charge, retry = used + cost <= capacity, 0, 0
if fits then
	charge = cost
else
	retry = cost > capacity and -1 or min(stop - at, 2 ^ 52)
	if demand == COUNTREFUSED then
		charge = max(0, min(cost, capacity + 1e15 - used))
	end
end
if charge > 0 then
	used, consumed = used + charge, min(consumed + charge, 2 ^ 53 - 1)
	raws[k], changed[k] = write('<BdBddddc0', VERSION, stop, 1, used, stop, start, consumed, limits), true
end
local yes = fits and 1 or 0
out[#out + 1] = write('<BddBdddd', yes, at, 0, yes, charge, capacity - used, retry, used > 0 and min(stop - at, 2 ^ 52) or 0)
first = first + 1
