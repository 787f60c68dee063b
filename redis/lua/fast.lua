-- Plain takes, without options or ids. There may be several, one after the
-- other, each deciding on what those before it left.
--
-- Most are of all the buckets of their keys, which are token buckets without
-- holds and under unchanged limits. Those are decided right here, in straight
-- lines, because defining the functions of the general case alone costs as
-- much as a take. The first take that is not so simple, and all after it, are
-- left to the general case. What costs most here is making strings and tables:
-- there are as few as can be.
--
-- The reply to a take is its status, the time, and the states of its buckets,
-- from which Go knows the rest.
local REFUSED, ALLOWED = 32, 33
local first, last = 2, #ARGV -- the arguments of takes not decided yet
local plain = byte(ARGV[1], 9) == 0

if last == 2 and plain then -- one take of one key
	local arg, raw = ARGV[2], raws[1]
	local flags, n, _, _, cost, _, _, _, _, amount, period, capacity = read('<BBBBdBBBBddd', arg)
	if flags == LAST + SIMPLE and n == 1 then -- and of one bucket: the commonest of all
		local limits, known = sub(arg, 13), true
		local used, rem, time, consumed = 0, 0, now, 0
		if raw then
			known = byte(raw) == VERSION and byte(raw, 10) == 1 and sub(raw, 43) == limits
			if known then
				used, rem, time, consumed = read('<dddd', raw, 11)
				--include refill
			end
		end
		if known and used + cost > capacity then
			return write('<Bddddd', REFUSED, now, used, rem, time, consumed)
		elseif known then
			used, consumed = used + cost, min(consumed + cost, 2 ^ 53 - 1)
			local full = time + used / amount * period
			local value = write('<BdBddddc0', VERSION, full, 1, used, rem, time, consumed, limits)
			call('SET', KEYS[1], value, 'PX', testing and 3600000 or floor(min(full - now, 2 ^ 52) / 1000) + 2)
			return write('<Bddddd', ALLOWED, now, used, rem, time, consumed)
		end
	end
end

local out, changed = {}, {} -- replies; which keys have changed
local f = {VERSION, 0, 1, 0, 0, 0, 0, 0} -- the fields of a key's value
local numbers = #ARGV[1] - last -- where those of the arguments' keys are

local simple = plain
while simple and first <= last do
	if byte(ARGV[first]) == LAST + WINDOWED then -- a take of one fixed window
		--include window
	else
		local to, charge, fits, head, values = first, 1, true, #out + 1, nil
		repeat
			local arg, k = ARGV[to], byte(ARGV[1], numbers + to)
			local flags, n = read('<BB', arg)
			local raw, limits = raws[k], sub(arg, 3 + 10 * n)
			if flags % 4 < SIMPLE or raw and (byte(raw) ~= VERSION or byte(raw, 10) ~= n or sub(raw, 11 + 32 * n) ~= limits) then
				simple = false
				break
			end
			--include part
			local size, dddd, whole, value = 4 * n + 3, 'dddd', '<BdBddddc0', nil
			if n == 2 then -- the usual ones are spelled out, as making strings costs
				dddd, whole = 'dddddddd', '<BdBddddddddc0'
			elseif n == 3 then
				dddd, whole = 'dddddddddddd', '<BdBddddddddddddc0'
			elseif n > 3 then
				dddd = string.rep('dddd', n)
				whole = '<BdB' .. dddd .. 'c0'
			end
			if fits then
				f[2], f[3], f[size + 1] = full, n, limits
				value = write(whole, unpack(f, 1, size + 1))
			end
			local again = flags > SIMPLE and not fits and charge == 1
			if again then -- without the costs, for the reply
				to, charge = first, 0
			elseif to == first and flags > SIMPLE then -- all of one key
				f[2], f[3] = fits and ALLOWED or REFUSED, now
				local reply = write('<Bd' .. dddd, unpack(f, 2, size))
				if last == 2 then -- and the only take
					if fits then
						call('SET', KEYS[1], value, 'PX', testing and 3600000 or floor(min(full - now, 2 ^ 52) / 1000) + 2)
					end
					return reply
				end
				out[head] = reply
				if fits then
					raws[k], changed[k] = value, true
				end
				to = to + 1
			else
				values = values or {}
				values[k] = value
				out[head] = '' -- known in the end
				out[head + 1 + to - first] = write('<' .. dddd, unpack(f, 4, size))
				to = to + 1
			end
		until flags > SIMPLE and not again
		if not simple then -- undo what there is of this take, and leave it
			for i = #out, head, -1 do
				out[i] = nil
			end
			break
		end
		if values then
			out[head] = write('<Bd', fits and ALLOWED or REFUSED, now)
			for k, value in pairs(fits and values or {}) do
				raws[k], changed[k] = value, true
			end
		end
		first = to
	end
end

-- All writing comes last: an error before it proves that nothing happened.
if plain and first > last then
	for k in pairs(changed) do
		local full = read('<d', raws[k], 2)
		call('SET', KEYS[k], raws[k], 'PX', testing and 3600000 or floor(min(full - now, 2 ^ 52) / 1000) + 2)
	end
	return table.concat(out)
end
