-- Brings token buckets to the present and charges them if all have room and
-- nothing else refuses. It makes the state to keep and to reply, and says when
-- they will be full, unless they are not charged. It makes none if one is ahead
-- of the clock, which is for the general case.
--each
	--include refill
--end
if [[time@ > now | or ]] then
	state = nil
elseif refusing or [[used@ + cost@ > capacity@ | or ]] then
	state = write('<B[[dddd]]', REFUSED, [[used@, rem@, time@, consumed@]])
else
	full = 0
	--each
		if used@ == 0 then -- full means absent
			consumed@ = 0
		end
		used@, consumed@ = used@ + cost@, consumed@ + cost@
		if consumed@ > 9007199254740991 then -- 2^53 - 1
			consumed@ = 9007199254740991
		end
		local due = time@ + used@ / amount@ * period@
		if due > full then
			full = due
		end
	--end
	state = write('<B[[dddd]]', ALLOWED, [[used@, rem@, time@, consumed@]])
end
