-- What follows mirrors package bucket, function by function; the reasons are
-- there. A state and its view stay apart: only commit writes one to the other.

local MAX = 1e15 -- sluice.MaxTokens
local NEVER = math.huge
local PARTS, RING = 32, 33

local function saturate(n)
	return min(max(n, -MOST), MOST)
end

-- quotient and remainder, rounded towards minus infinity
local function divide(a, b)
	local rest = a % b
	return (a - rest) / b, rest
end

-- Spec.refill
local function bring(p, v, t)
	v.used, v.rem = refill(v.used, v.rem, t - v.time, p.amount, p.period)
	v.time = t
end

-- newView has room for everything from the start, so that it need not grow.
local function newView(t, used, rem, time)
	return {
		now = t, used = used, rem = rem, time = time, held = 0,
		behind = 0, ahead = 0, tickets = 0, aheadEnds = 0, ticketsEnd = 0,
	}
end

-- Spec.viewTokens
local function viewTokens(p, s, t)
	local v = newView(max(t, s.time), s.used, s.rem, s.time)
	for _, h in ipairs(s.holds or {}) do
		if h.expires > v.now then
			v.held = v.held + h.amount
		else
			bring(p, v, max(h.expires, v.time))
			v.used = v.used + h.amount
		end
	end
	bring(p, v, v.now)
	return v
end

-- Spec.untilTokens
local function untilTokens(p, s, v, target)
	local w = {now = v.now, used = v.used, rem = v.rem, time = v.time}
	local held, i = v.held, 0
	while held > 0 do
		i = i + 1
		local h = s.holds[i]
		if h.expires > v.now then
			local excess = w.used + held - target
			if excess <= w.used then
				local wait = repayIn(excess, w.rem, p.amount, p.period)
				if w.now + wait <= h.expires then
					return w.now + wait - v.now
				end
			end
			w.now = h.expires
			bring(p, w, w.now)
			w.used, held = w.used + h.amount, held - h.amount
		end
	end
	return w.now + repayIn(w.used - target, w.rem, p.amount, p.period) - v.now
end

-- Spec.Window. Lua knows no time zones: the node sends the boundaries of some
-- calendar windows. If none fits, the answer is nothing.
local function window(p, s, t)
	if p.calendar == 0 then
		local start = t - t % p.period
		return start, start + p.period
	end
	if s.stop and s.time <= t and t < s.stop then
		return s.time, s.stop
	end
	local w = p.windows
	for i = 1, #w - 1 do
		if w[i] <= t and t < w[i + 1] then
			return w[i], w[i + 1]
		end
	end
end

-- Spec.viewFixed
local function viewFixed(p, s, t)
	local v = newView(max(t, s.time), 0, 0, nil)
	v.time, v.stop = window(p, s, v.now)
	if s.time ~= v.time then
		return v
	end
	v.used = s.used
	for _, h in ipairs(s.holds or {}) do
		if h.expires > v.now then
			v.held = v.held + h.amount
		else
			v.used = v.used + h.amount
		end
	end
	return v
end

-- Spec.part and Spec.partStart
local function part(p, t)
	local whole, rest = divide(t, p.period)
	return whole * PARTS + floor(rest * PARTS / p.period)
end

local function partStart(p, i)
	local whole, rest = divide(i, PARTS)
	return whole * p.period + ceil(rest * p.period / PARTS)
end

-- Spec.viewSliding. Counts are found by their part's number, not in a ring.
local function viewSliding(p, s, t)
	local v = newView(t, 0, 0, part(p, t))
	if not s.counts then
		return v
	end
	if v.time < s.time then
		v.time, v.now = s.time, partStart(p, s.time)
	end
	if v.time == s.time then
		v.used = s.used
		return v
	end
	for i = v.time - PARTS, s.time do
		v.used = v.used + (s.counts[i] or 0)
	end
	return v
end

-- Spec.untilSliding
local function untilSliding(p, s, v, target)
	local used = v.used
	for i = v.time - PARTS, s.time do
		used = used - (s.counts[i] or 0)
		if used <= target then
			return partStart(p, i + RING) - v.now
		end
	end
	return FOREVER
end

-- Spec.viewHolders. Holders stay packed: id, cost and expires of each, in order
-- of expiry. v.gone is how many bytes of them have expired.
local function viewHolders(p, s, t)
	t = max(t, s.time)
	local v = newView(t, s.used, 0, t)
	v.gone = 0
	local holders = s.holders or ''
	while v.gone < #holders do
		local cost, expires = read('<dd', holders, v.gone + 17)
		if expires > t then
			break
		end
		v.used, v.gone = v.used - cost, v.gone + ENTRY
	end
	return v
end

-- untilHolders
local function untilHolders(s, v, target)
	if target == 0 then -- the last one
		return read('<d', s.holders, #s.holders - 7) - v.now
	end
	local used = v.used
	for at = v.gone, #s.holders - ENTRY, ENTRY do
		local cost, expires = read('<dd', s.holders, at + 17)
		used = used - cost
		if used <= target then
			return expires - v.now
		end
	end
	return 0
end

-- Spec.View. It has no time if it would need a calendar window that the node
-- has not sent.
local function view(p, s, t)
	local v
	if p.alg == TOKENS then
		v = viewTokens(p, s, t)
	elseif p.alg == FIXED then
		v = viewFixed(p, s, t)
	elseif p.alg == SLIDING then
		v = viewSliding(p, s, t)
	else
		v = viewHolders(p, s, t)
	end
	v.behind = v.now - t
	if s.tickets then
		stand(s, v)
	end
	return v
end

-- View.Remaining, View.Free and View.Available
local function remaining(p, v)
	return p.capacity - v.used
end

local function free(p, v)
	return p.capacity - v.used - v.held
end

local function available(p, v)
	return p.capacity - v.used - v.held - v.ahead
end

-- Spec.until
local function wait(p, s, v, target)
	local t
	if p.alg == TOKENS then
		t = untilTokens(p, s, v, target)
	elseif p.alg == FIXED then
		t = v.stop - v.now
	elseif p.alg == SLIDING then
		t = untilSliding(p, s, v, target)
	else
		t = untilHolders(s, v, target)
	end
	return min(t, FOREVER)
end

-- View.later
local function since(v, t)
	if t == 0 or t == NEVER then
		return t
	end
	return min(t + v.behind, FOREVER)
end

-- Spec.retryIn and Spec.RetryIn
local function retryFrom(p, s, v, cost)
	if cost <= available(p, v) then
		return 0
	elseif cost > p.capacity then
		return NEVER
	end
	if v.ahead > 0 then
		if p.alg == TOKENS then
			v = {now = v.now, used = v.used + v.ahead, rem = v.rem, time = v.time, held = v.held}
		elseif cost <= free(p, v) then
			return v.aheadEnds - v.now
		end
	end
	return wait(p, s, v, p.capacity - cost)
end

local function retryIn(p, s, v, cost)
	return since(v, retryFrom(p, s, v, cost))
end

-- Spec.ResetIn
local function resetIn(p, s, v)
	if v.used == 0 then
		return 0
	elseif p.alg == TOKENS then
		return since(v, repayIn(v.used, v.rem, p.amount, p.period)) -- whatever is held
	end
	return since(v, wait(p, s, v, 0))
end

-- idleIn is when nothing is used or held any more, so that the state can be
-- forgotten.
local function idleIn(p, s, v)
	if v.used == 0 and v.held == 0 then
		return 0
	end
	return since(v, wait(p, s, v, 0))
end
