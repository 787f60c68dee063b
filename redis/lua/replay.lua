-- Records of idempotent writes: one hash each. It decides as idempotency.Decide
-- does. Fields that it does not know, of a newer node, are left alone.
--
-- ARGV[1] is what to do, ARGV[2] the time that tests give, or nothing.
-- Times are microseconds.
local key = KEYS[1]
local what = ARGV[1]
local now
if ARGV[2] ~= '' then
    now = tonumber(ARGV[2])
else
    local t = redis.call('TIME')
    now = t[1] * 1000000 + t[2]
end

local function num(n) return string.format('%.0f', n) end

local function expire(ttl)
    redis.call('PEXPIRE', key, num(math.ceil(ttl / 1000)))
end

-- record is the hash without the result, or nil if there is none.
local function record()
    local r = redis.call('HMGET', key, 'fp', 'state', 'token', 'leaseends', 'expires', 'lease', 'attempts')
    if not r[1] or tonumber(r[5]) <= now then return nil end
    return {
        fp = r[1], state = r[2], token = r[3], ends = tonumber(r[4]),
        lease = tonumber(r[6]), attempts = tonumber(r[7]),
    }
end

-- answer is everything that a caller may want to know.
local function answer(verdict, result)
    local fields = redis.call('HMGET', key, 'tenant', 'method', 'route', 'key', 'fp', 'state', 'token', 'attempts',
        'started', 'lease', 'leaseends', 'finished', 'expires', 'replays', 'replayed', 'size')
    for i = 1, 16 do fields[i] = fields[i] or '' end
    fields[17] = result and redis.call('HGET', key, 'result') or ''
    return {verdict, num(now), fields}
end

if what == 'claim' then
    local fp, token, lease, ttl, takeover = ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]
    local r = record()
    local attempts = 1
    if r then
        if r.fp ~= fp then return answer('mismatch') end
        if r.state == '1' then return answer('finished', true) end
        if r.state == '0' then
            if r.token == token then return answer('claimed') end
            if now < r.ends then
                if r.ends > now + r.lease then -- the clock was set back
                    redis.call('HSET', key, 'leaseends', num(now + r.lease))
                end
                return answer('busy')
            end
            if takeover ~= '1' then return answer('unknown') end
        end
        attempts = r.attempts + 1
        redis.call('HDEL', key, 'finished', 'size', 'result', 'replays', 'replayed')
    else
        redis.call('DEL', key)
    end
    redis.call('HSET', key, 'tenant', ARGV[8], 'method', ARGV[9], 'route', ARGV[10], 'key', ARGV[11],
        'fp', fp, 'state', '0', 'token', token, 'attempts', num(attempts), 'started', num(now),
        'lease', num(lease), 'leaseends', num(now + lease), 'expires', num(now + ttl))
    expire(ttl)
    return answer(attempts == 1 and 'claimed' or 'takenover')
end

local r = record()
if what == 'look' or what == 'glance' then
    if not r then return {'none'} end
    return answer('found', what == 'look')
end
if what == 'forget' then
    redis.call('DEL', key)
    return {r and 'ok' or 'none'}
end
if what == 'note' then
    if r then
        redis.call('HINCRBY', key, 'replays', ARGV[3])
        local last = redis.call('HGET', key, 'replayed')
        if not last or tonumber(last) < tonumber(ARGV[4]) then
            redis.call('HSET', key, 'replayed', ARGV[4])
        end
    end
    return {'ok'}
end

-- What only the holder of the claim may do.
if not r or r.token ~= ARGV[3] then return {'lost'} end
if what == 'finish' and r.state ~= '0' then
    return {r.state == ARGV[4] and 'ok' or 'lost'} -- sent again
end
if r.state ~= '0' then return {'lost'} end
if what == 'extend' then
    redis.call('HSET', key, 'lease', ARGV[4], 'leaseends', num(now + tonumber(ARGV[4])))
elseif what == 'finish' then
    redis.call('HSET', key, 'state', ARGV[4], 'finished', num(now), 'expires', num(now + tonumber(ARGV[5])),
        'size', #ARGV[6], 'result', ARGV[6])
    expire(tonumber(ARGV[5]))
else
    redis.call('DEL', key)
end
return {'ok'}
