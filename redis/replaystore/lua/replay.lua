-- Records of idempotent writes: one hash each. It decides as idempotency.Decide
-- does. Fields that it does not know, of a newer node, are left alone.
--
-- ARGV[1] is what to do, ARGV[2] the time that tests give, or nothing.
-- Times are microseconds.
--
-- KEYS[2] and KEYS[3] are two lists of the records that share a slot with this
-- one, by id and by expiry, so that those of a tenant are found. They change
-- in the same step as the record.
local key = KEYS[1]
local ids, ends = KEYS[2], KEYS[3]
local id = ARGV[3]
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

-- A record goes by itself when it has expired, and its place in the lists when
-- it has been gone for slack: if the clock is set back, it is still there.
local slack = 3600 * 1000000

local function enlist(expires)
    redis.call('ZADD', ids, 0, id)
    redis.call('ZADD', ends, num(expires), id)
    local gone = redis.call('ZRANGEBYSCORE', ends, '-inf', num(now - slack), 'LIMIT', 0, 8)
    if #gone > 0 then
        redis.call('ZREM', ids, unpack(gone))
        redis.call('ZREM', ends, unpack(gone))
    end
    local life = (expires - now + slack) / 1000
    if redis.call('PTTL', ids) < life then -- once in a while
        redis.call('PEXPIRE', ids, num(life + slack / 1000))
        redis.call('PEXPIRE', ends, num(life + slack / 1000))
    end
end

local function strike()
    redis.call('DEL', key)
    redis.call('ZREM', ids, id)
    redis.call('ZREM', ends, id)
end

-- record is the hash without the result, or nil if there is none.
local function record()
    local r = redis.call('HMGET', key, 'fp', 'state', 'token', 'leaseends', 'expires', 'lease', 'attempts')
    if not r[1] or tonumber(r[5]) <= now then return nil end
    return {
        fp = r[1], state = r[2], token = r[3], ends = tonumber(r[4]), expires = tonumber(r[5]),
        life = tonumber(r[6]), attempts = tonumber(r[7]),
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
    local fp, token, life, ttl, takeover = ARGV[4], ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8]
    local r = record()
    local attempts = 1
    if r then
        if r.fp ~= fp then return answer('mismatch') end
        if r.state == '1' then return answer('finished', true) end
        if r.state == '0' then
            if r.token == token then return answer('claimed') end
            if now < r.ends then
                if r.ends > now + r.life then -- the clock was set back
                    redis.call('HSET', key, 'leaseends', num(now + r.life))
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
    redis.call('HSET', key, 'tenant', ARGV[9], 'method', ARGV[10], 'route', ARGV[11], 'key', ARGV[12],
        'fp', fp, 'state', '0', 'token', token, 'attempts', num(attempts), 'started', num(now),
        'lease', num(life), 'leaseends', num(now + life), 'expires', num(now + ttl))
    expire(ttl)
    enlist(now + ttl)
    return answer(attempts == 1 and 'claimed' or 'takenover')
end

local r = record()
if what == 'look' or what == 'glance' then
    if not r then return {'none'} end
    return answer('found', what == 'look')
end
if what == 'forget' then
    strike()
    return {r and 'ok' or 'none'}
end
if what == 'erase' then -- if it is of a tenant, or of one below
    local tenant = redis.call('HGET', key, 'tenant')
    if tenant and tenant ~= ARGV[4] and not (ARGV[5] ~= '' and string.sub(tenant, 1, #ARGV[5]) == ARGV[5]) then
        return {'other'}
    end
    strike()
    return {r and 'ok' or 'none'}
end
if what == 'note' then
    if r then
        redis.call('HINCRBY', key, 'replays', ARGV[4])
        local last = redis.call('HGET', key, 'replayed')
        if not last or tonumber(last) < tonumber(ARGV[5]) then
            redis.call('HSET', key, 'replayed', ARGV[5])
        end
    end
    return {'ok'}
end

-- What only the holder of the claim may do.
if not r or r.token ~= ARGV[4] then return {'lost'} end
if what == 'finish' and r.state ~= '0' then
    return {r.state == ARGV[5] and 'ok' or 'lost'} -- sent again
end
if r.state ~= '0' then return {'lost'} end
if what == 'extend' then
    redis.call('HSET', key, 'lease', ARGV[5], 'leaseends', num(now + tonumber(ARGV[5])))
elseif what == 'finish' then
    redis.call('HSET', key, 'state', ARGV[5], 'finished', num(now), 'expires', num(now + tonumber(ARGV[6])),
        'size', #ARGV[7], 'result', ARGV[7])
    expire(tonumber(ARGV[6]))
    if now + tonumber(ARGV[6]) > r.expires + slack / 2 then -- else the claim's place will do
        enlist(now + tonumber(ARGV[6]))
    end
else
    strike()
end
return {'ok'}
