-- Spec.Refill, included where a call would cost too much.
if time@ < now then
	local rest = (now - time@) % period@
	local periods = (now - time@ - rest) / period@
	time@ = now
	if periods > used@ / amount@ then
		used@, rem@ = 0, 0
	else
		local parts = rest * amount@ + rem@
		rem@ = parts % period@
		used@ = used@ - periods * amount@ - (parts - rem@) / period@
		if used@ <= 0 then
			used@, rem@ = 0, 0
		end
	end
end
