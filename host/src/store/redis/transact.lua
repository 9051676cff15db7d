-- One transaction on one bucket, all or none. See wit/key-value.wit for what it promises and
-- store/redis/codec.rs for how requests and replies are written.
--
-- Three steps: open the bucket; probe whatever the operations will touch (types, counters, positions,
-- expectations); then write. Nothing before the first write can leave a trace, and nothing after it can
-- fail: the first write is one that Redis refuses when it is out of memory or read-only.
--
-- No tables of functions and few closures: they are made anew in every run, and cost more than the calls.

local meta, keys, writers, registry = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local base, bucket, writer, sequence = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local writes, deadline = ARGV[5] == '1', tonumber(ARGV[6])
local mode, wanted, sliding = ARGV[7], ARGV[8], ARGV[9] == '1'
local prefix, remembered_writers, writers_life = ARGV[10], tonumber(ARGV[11]), tonumber(ARGV[12])
local log_count = tonumber(ARGV[13])
local call, try = redis.call, redis.pcall
local CHUNK = 4000 -- Lua's unpack ends at about 8000

-- Statuses and failures, as codec.rs numbers them.
local APPLIED, REPEATED, ABSENT, EXPIRED, EXISTS, ANOTHER_LIFE, UNMET = 0, 1, 2, 3, 4, 5, 6
local WRONG_TYPE, NOT_A_COUNTER, COUNTER_OVERFLOW, INVALID_POSITION, TOO_MANY_RECORDS, LATE = 10, 11, 12, 13, 14, 15

local now, stamp = 0, nil
local function read_clock()
  if now == 0 then
    local time = call('TIME')
    now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
    stamp = string.format('%s.%06d', time[1], tonumber(time[2]))
  end
end

-- Step 1: open. ------------------------------------------------------------------------------------

local fields, logs = { meta, 'created_at', 'sliding_ms' }, {}
for i = 1, log_count do
  local name = ARGV[13 + i]
  fields[3 + i], logs[name] = 'log:' .. name, i
end
fields = try('HMGET', unpack(fields))
if fields.err then return { WRONG_TYPE, now, '__meta__' } end
local expires = try('PEXPIRETIME', meta)
if type(expires) == 'table' then -- before Redis 7
  expires = call('PTTL', meta)
  if expires >= 0 then
    read_clock()
    expires = now + expires
  end
end
if expires > 0 then read_clock() end
local exists = expires ~= -2 and (expires == -1 or expires > now)
local incarnation = fields[1] or ''

local creates = mode ~= 'existing' and not exists
if writes or creates then
  read_clock()
  if deadline > 0 and now > deadline then return { LATE, now, '' } end
end

local repeated, writers_expire = false, nil
if writes or creates or mode == 'create-new' then
  local seen = try('HMGET', writers, writer, '~')
  if seen.err then return { WRONG_TYPE, now, '__writers__' } end
  repeated = seen[1] and tonumber(string.match(seen[1], '^%d+')) >= sequence
  writers_expire = tonumber(seen[2] or 0)
end

if not exists and (repeated or not creates) then
  local was_listed = call('SREM', registry, bucket) == 1
  return { (was_listed or expires ~= -2) and EXPIRED or ABSENT, now, 0, '' }
end
if mode == 'create-new' and exists and not repeated then return { EXISTS, now, 0, incarnation } end
if mode == 'existing' and wanted ~= '' and wanted ~= incarnation then return { ANOTHER_LIFE, now, 0, incarnation } end

-- Step 2: probe. -----------------------------------------------------------------------------------
-- `member` knows the bucket's keys as far as they matter, `length` and `first` its logs.

local first_operation, last = 14 + log_count, #ARGV
local member, length, first, registered = {}, {}, {}, {}

for name, i in pairs(logs) do
  local replaced = fields[2 + i]
  first[name] = tonumber(replaced or 0)
  -- The original's log is known without being named; any other is what the meta-data say it is.
  registered[name] = replaced or name == 'history'
  length[name] = 0
  if exists and registered[name] then
    local records = try('LLEN', base .. '__' .. name .. '__')
    if type(records) == 'table' then return { WRONG_TYPE, now, name } end
    length[name] = records
  end
end

if exists then
  local names, count, all = { keys }, 1, false
  local i = first_operation
  while i <= last do
    local operation = ARGV[i]
    if operation == 'put' or operation == 'increment' then
      count = count + 1
      names[count] = ARGV[i + 1]
      i = i + 3
    elseif operation == 'append' then i = i + 3 + ARGV[i + 2]
    elseif operation == 'overflow' then i = i + 6
    elseif operation == 'get' or operation == 'expect-room' then
      count = count + 1
      names[count] = ARGV[i + 1]
      i = i + 3
    elseif operation == 'remove' then
      count = count + 1
      names[count] = ARGV[i + 1]
      i = i + 2
    elseif operation == 'get-all' then all = true i = i + 3
    elseif operation == 'list-keys' or operation == 'remove-all' then all = true i = i + 2
    elseif operation == 'read' then i = i + 6
    elseif operation == 'replace-oldest' then i = i + 4 + ARGV[i + 3]
    elseif operation == 'rewrite' then i = i + 4
    elseif operation == 'count' then i = i + 2
    elseif operation == 'expect-oldest' then i = i + 3 + ARGV[i + 2]
    elseif operation == 'expect-keys' then all = true i = i + 2 + ARGV[i + 1]
    else return redis.error_reply('ERR unknown operation') end
  end
  for from = 2, count, CHUNK do
    local to = math.min(from + CHUNK - 1, count)
    local answers = try('SMISMEMBER', keys, unpack(names, from, to))
    if answers.err then return { WRONG_TYPE, now, '__keys__' } end
    for j = from, to do member[names[j]] = answers[j - from + 1] == 1 end
  end
  if all and type(try('SCARD', keys)) == 'table' then return { WRONG_TYPE, now, '__keys__' } end
end

-- Whether the sum of two signed 64-bit integers, both in canonical decimal form, is one too. Lua's
-- numbers are exact up to 2^53 only, so the digits are added in two halves.
local function sum_fits(a, b)
  if #a < 16 and #b < 16 then return true end
  local negative = string.sub(a, 1, 1) == '-'
  if negative ~= (string.sub(b, 1, 1) == '-') then return true end
  a, b = string.gsub(a, '-', ''), string.gsub(b, '-', '')
  a, b = string.rep('0', 19 - #a) .. a, string.rep('0', 19 - #b) .. b
  local low = tonumber(string.sub(a, 11)) + tonumber(string.sub(b, 11))
  local high = tonumber(string.sub(a, 1, 10)) + tonumber(string.sub(b, 1, 10)) + math.floor(low / 1e9)
  low = low % 1e9
  return high < 9223372036 or (high == 9223372036 and low <= (negative and 854775808 or 854775807))
end

local function is_integer(text)
  if text == '0' then return true end
  local digits = string.match(text, '^-?([1-9]%d*)$')
  if not digits or #digits > 19 then return false end
  if #digits < 19 then return true end
  return digits <= (string.sub(text, 1, 1) == '-' and '9223372036854775808' or '9223372036854775807')
end

local i = first_operation
while i <= last do
  local operation = ARGV[i]
  if operation == 'put' then
    if exists and type(try('STRLEN', base .. ARGV[i + 1])) == 'table' then return { WRONG_TYPE, now, ARGV[i + 1] } end
    i = i + 3
  elseif operation == 'increment' then
    if exists and not repeated then
      local value = try('GET', base .. ARGV[i + 1])
      if type(value) == 'table' then return { WRONG_TYPE, now, ARGV[i + 1] } end
      if not value then member[ARGV[i + 1]] = false
      elseif member[ARGV[i + 1]] then
        if not is_integer(value) then return { NOT_A_COUNTER, now, ARGV[i + 1] } end
        if not sum_fits(value, ARGV[i + 2]) then return { COUNTER_OVERFLOW, now, ARGV[i + 1] } end
      end
    end
    i = i + 3
  elseif operation == 'append' then i = i + 3 + ARGV[i + 2]
  elseif operation == 'overflow' then i = i + 6
  elseif operation == 'get' then
    if member[ARGV[i + 1]] and type(try('STRLEN', base .. ARGV[i + 1])) == 'table' then
      return { WRONG_TYPE, now, ARGV[i + 1] }
    end
    i = i + 3
  elseif operation == 'remove' or operation == 'count' then i = i + 2
  elseif operation == 'get-all' then i = i + 3
  elseif operation == 'list-keys' or operation == 'remove-all' then i = i + 2
  elseif operation == 'read' then i = i + 6
  elseif operation == 'replace-oldest' then
    if not repeated and tonumber(ARGV[i + 3]) > length[ARGV[i + 1]] then return { TOO_MANY_RECORDS, now, ARGV[i + 1] } end
    i = i + 4 + ARGV[i + 3]
  elseif operation == 'rewrite' then
    local index = tonumber(ARGV[i + 2]) - first[ARGV[i + 1]]
    if not repeated and (index < 0 or index >= length[ARGV[i + 1]]) then return { INVALID_POSITION, now, ARGV[i + 1] } end
    i = i + 4
  elseif operation == 'expect-oldest' then
    local log, count = ARGV[i + 1], tonumber(ARGV[i + 2])
    if not repeated and count > 0 then
      if count > length[log] then return { UNMET, now, 0, incarnation } end
      local records = call('LRANGE', base .. '__' .. log .. '__', 0, count - 1)
      for j = 1, count do
        if records[j] ~= ARGV[i + 2 + j] then return { UNMET, now, 0, incarnation } end
      end
    end
    i = i + 3 + count
  elseif operation == 'expect-keys' then
    local count = tonumber(ARGV[i + 1])
    if not repeated then
      local held, expected = 0, {}
      for j = i + 2, i + 1 + count do expected[ARGV[j]] = true end
      if exists then
        for _, name in ipairs(call('SMEMBERS', keys)) do
          if not string.find(name, '^__.*__$') then
            if not expected[name] then return { UNMET, now, 0, incarnation } end
            held = held + 1
          end
        end
      end
      for _ in pairs(expected) do held = held - 1 end
      if held ~= 0 then return { UNMET, now, 0, incarnation } end
    end
    i = i + 2 + count
  elseif operation == 'expect-room' then
    if not repeated and not member[ARGV[i + 1]] then
      local held = exists and call('SCARD', keys) or 0
      if held >= tonumber(ARGV[i + 2]) then return { UNMET, now, 0, incarnation } end
    end
    i = i + 3
  else return redis.error_reply('ERR unknown operation') end
end

local listed
if creates then
  listed = try('SRANDMEMBER', registry, 2)
  if listed.err then return { WRONG_TYPE, now, '__sessions__' } end
end

-- Step 3: write. -----------------------------------------------------------------------------------

writes = writes and not repeated
if writes or creates then
  -- The first write: refused as a whole when Redis takes none.
  local life = now + writers_life
  local renewed = writers_expire < now + writers_life / 2
  local is_new
  if renewed then
    is_new = call('HSET', writers, writer, sequence .. ':' .. now, '~', life) > 0
    call('PEXPIREAT', writers, life)
  else
    is_new = call('HSET', writers, writer, sequence .. ':' .. now) > 0
  end
  if is_new and call('HLEN', writers) > remembered_writers + 1 then
    -- Forget the older half at once, so that this is rare however many writers come and go.
    local all, times = call('HGETALL', writers), {}
    for j = 1, #all, 2 do
      if all[j] ~= '~' then times[#times + 1] = { all[j], tonumber(string.match(all[j + 1], ':(%d+)$') or 0) } end
    end
    table.sort(times, function(a, b) return a[2] > b[2] end)
    for j = math.floor(remembered_writers / 2) + 1, #times do
      if times[j][1] ~= writer then call('HDEL', writers, times[j][1]) end
    end
  end
end

local function delete(names)
  for from = 1, #names, CHUNK do call('DEL', unpack(names, from, math.min(from + CHUNK - 1, #names))) end
end

if creates then
  -- What an earlier life left behind, found by its key set, whatever it is.
  local leftovers = { meta, keys, base .. '__history__' }
  local names = try('SMEMBERS', keys)
  if not names.err then
    for _, name in ipairs(names) do leftovers[#leftovers + 1] = base .. name end
  end
  for name in pairs(logs) do leftovers[#leftovers + 1] = base .. '__' .. name .. '__' end
  delete(leftovers)
  incarnation, expires = stamp, -1
  if wanted == '' then
    call('HSET', meta, 'created_at', stamp, 'ttl_seconds', 'None')
  else
    local seconds = tonumber(wanted) / 1000
    local text = seconds % 1 == 0 and string.format('%.1f', seconds) or string.format('%.14g', seconds)
    expires = now + tonumber(wanted)
    if sliding then call('HSET', meta, 'created_at', stamp, 'ttl_seconds', text, 'sliding_ms', wanted)
    else call('HSET', meta, 'created_at', stamp, 'ttl_seconds', text) end
    call('PEXPIREAT', meta, expires)
  end
  call('SADD', registry, bucket)
  -- Two at random, so that the registry can't grow without bound.
  for _, name in ipairs(listed) do
    if name ~= bucket and call('EXISTS', prefix .. name .. ':__meta__') == 0 then call('SREM', registry, name) end
  end
elseif fields[2] and expires > 0 then
  local life = tonumber(fields[2])
  if (life - (expires - now)) * 100 >= life then
    expires = now + life
    call('PEXPIREAT', meta, expires)
    call('PEXPIREAT', keys, expires)
    call('PEXPIREAT', base .. '__history__', expires)
    for _, field in ipairs(call('HKEYS', meta)) do
      if string.sub(field, 1, 4) == 'log:' then call('PEXPIREAT', base .. '__' .. string.sub(field, 5) .. '__', expires) end
    end
    for _, name in ipairs(call('SMEMBERS', keys)) do
      if not string.find(name, '^__.*__$') then call('PEXPIREAT', base .. name, expires) end
    end
  end
end

local joined = {} -- keys that are new, for one SADD
local function join()
  for from = 1, #joined, CHUNK do call('SADD', keys, unpack(joined, from, math.min(from + CHUNK - 1, #joined))) end
  if #joined > 0 and expires > 0 then call('PEXPIREAT', keys, expires) end
  joined = {}
end

-- The bucket's keys, sorted. What carries a bookkeeping name is not one.
local function all_keys()
  if #joined > 0 then join() end
  local names, held = {}, call('SMEMBERS', keys)
  for j = 1, #held do
    if not string.find(held[j], '^__.*__$') then names[#names + 1] = held[j] end
  end
  return names
end

local function first_names(names, limit)
  table.sort(names)
  local answer = { #names }
  for j = 1, math.min(#names, limit) do answer[j + 1] = names[j] end
  return answer
end

-- Up to `max_records` records from index `from` on, at most `max_bytes`, at least one.
local function range(log, from, max_records, max_bytes)
  local answer, bytes, list = { first[log] + from, length[log] }, 0, base .. '__' .. log .. '__'
  local last_index = math.min(length[log], from + max_records) - 1
  while from <= last_index do
    local to = math.min(from + 255, last_index)
    local records = call('LRANGE', list, from, to)
    for j = 1, #records do
      bytes = bytes + #records[j]
      if bytes > max_bytes and #answer > 2 then return answer end
      answer[#answer + 1] = records[j]
    end
    from = to + 1
  end
  return answer
end

local reply = { repeated and REPEATED or APPLIED, now, creates and 1 or 0, incarnation }
local answered = 4
i = first_operation
while i <= last do
  local operation, outcome = ARGV[i], nil
  if operation == 'put' then
    local key = ARGV[i + 1]
    outcome = member[key] and 0 or 1
    if writes then
      if expires > 0 then call('SET', base .. key, ARGV[i + 2], 'PXAT', string.format('%.0f', expires))
      else call('SET', base .. key, ARGV[i + 2]) end
      if not member[key] then joined[#joined + 1] = key end
      member[key] = true
    end
    i = i + 3
  elseif operation == 'increment' then
    local key = ARGV[i + 1]
    if not writes then
      outcome = exists and member[key] and call('GET', base .. key) or '0'
    elseif member[key] then
      local value = call('INCRBY', base .. key, ARGV[i + 2])
      outcome = math.abs(value) < 9007199254740992 and string.format('%.0f', value) or call('GET', base .. key)
    else
      outcome = ARGV[i + 2]
      if expires > 0 then call('SET', base .. key, outcome, 'PXAT', string.format('%.0f', expires))
      else call('SET', base .. key, outcome) end
      joined[#joined + 1] = key
      member[key] = true
    end
    i = i + 3
  elseif operation == 'append' then
    local log, count = ARGV[i + 1], tonumber(ARGV[i + 2])
    if writes and count > 0 then
      local list = base .. '__' .. log .. '__'
      if not registered[log] then
        call('DEL', list)
        call('HSET', meta, 'log:' .. log, 0)
        registered[log] = true
      end
      for from = 1, count, CHUNK do
        call('RPUSH', list, unpack(ARGV, i + 2 + from, i + 2 + math.min(from + CHUNK - 1, count)))
      end
      if length[log] == 0 and expires > 0 then call('PEXPIREAT', list, expires) end
      length[log] = length[log] + count
    end
    outcome = { first[log], length[log] }
    i = i + 3 + count
  elseif operation == 'overflow' then
    local log, limit, keep = ARGV[i + 1], tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])
    if length[log] > limit and length[log] > keep then
      outcome = range(log, 0, math.min(length[log] - keep, tonumber(ARGV[i + 4])), tonumber(ARGV[i + 5]))
    else
      outcome = { first[log], length[log] }
    end
    i = i + 6
  elseif operation == 'get-all' then
    local max_bytes, max_keys = tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
    local names = all_keys()
    local bytes, count = 0, #names
    outcome = {}
    if count <= max_keys then
      -- In small steps: what is too large is not read to its end.
      for from = 1, count, 64 do
        local addresses, to = {}, math.min(from + 63, count)
        for j = from, to do addresses[j - from + 1] = base .. names[j] end
        local values = call('MGET', unpack(addresses))
        for j = from, to do
          local value = values[j - from + 1]
          -- Evicted, or not a string.
          if value then
            bytes = bytes + #names[j] + #value
            outcome[#outcome + 1] = names[j]
            outcome[#outcome + 1] = value
          end
        end
        if bytes > max_bytes then break end
      end
    end
    if count > max_keys or bytes > max_bytes then outcome = { false, bytes, count } end
    i = i + 3
  elseif operation == 'get' then
    local key, max_bytes = ARGV[i + 1], tonumber(ARGV[i + 2])
    outcome = {}
    if member[key] then
      local bytes = call('STRLEN', base .. key)
      if bytes > max_bytes then outcome = { false, bytes, 1 }
      else outcome = { call('GET', base .. key) or nil } end
    end
    i = i + 3
  elseif operation == 'remove' then
    local key = ARGV[i + 1]
    outcome = { 0 }
    if member[key] and writes then
      outcome = { 1, key }
      call('DEL', base .. key)
      call('SREM', keys, key)
      member[key] = false
    end
    i = i + 2
  elseif operation == 'remove-all' then
    outcome = { 0 }
    if writes then
      local names, addresses = all_keys(), {}
      for j = 1, #names do addresses[j], member[names[j]] = base .. names[j], false end
      delete(addresses)
      for from = 1, #names, CHUNK do call('SREM', keys, unpack(names, from, math.min(from + CHUNK - 1, #names))) end
      outcome = first_names(names, tonumber(ARGV[i + 1]))
    end
    i = i + 2
  elseif operation == 'list-keys' then
    outcome = first_names(all_keys(), tonumber(ARGV[i + 1]))
    i = i + 2
  elseif operation == 'read' then
    local log, skip, max_records, max_bytes = ARGV[i + 1], tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4]), tonumber(ARGV[i + 5])
    if ARGV[i + 2] == 'oldest' then
      outcome = range(log, skip, max_records, max_bytes)
    else
      -- From the newest backwards, as far as the bytes go.
      local list, to, bytes, from = base .. '__' .. log .. '__', length[log] - skip - 1, 0, nil
      local lowest, newest_first = math.max(0, to - max_records + 1), {}
      while to >= lowest and bytes <= max_bytes do
        from = math.max(lowest, to - 255)
        local records = call('LRANGE', list, from, to)
        for j = #records, 1, -1 do
          bytes = bytes + #records[j]
          if bytes > max_bytes and #newest_first > 0 then break end
          newest_first[#newest_first + 1] = records[j]
        end
        to = from - 1
      end
      local count = #newest_first
      outcome = { first[log] + math.max(0, length[log] - skip - count), length[log] }
      for j = count, 1, -1 do outcome[#outcome + 1] = newest_first[j] end
    end
    i = i + 6
  elseif operation == 'replace-oldest' then
    local log, count = ARGV[i + 1], tonumber(ARGV[i + 3])
    local replaced = math.min(tonumber(ARGV[i + 2]), length[log])
    if writes and replaced > 0 then
      local list = base .. '__' .. log .. '__'
      -- The new ones in the places of the last of the old: the list is never empty in between.
      for j = 1, count do call('LSET', list, replaced - count + j - 1, ARGV[i + 3 + j]) end
      if replaced > count then
        call('LTRIM', list, replaced - count, -1)
        first[log], length[log] = first[log] + replaced - count, length[log] - replaced + count
        call('HSET', meta, 'log:' .. log, string.format('%.0f', first[log]))
      end
    end
    outcome = { first[log], length[log] }
    i = i + 4 + count
  elseif operation == 'rewrite' then
    local log = ARGV[i + 1]
    if writes then call('LSET', base .. '__' .. log .. '__', tonumber(ARGV[i + 2]) - first[log], ARGV[i + 3]) end
    outcome = { first[log], length[log] }
    i = i + 4
  elseif operation == 'count' then
    outcome = { first[ARGV[i + 1]], length[ARGV[i + 1]] }
    i = i + 2
  elseif operation == 'expect-oldest' then i = i + 3 + ARGV[i + 2]
  elseif operation == 'expect-keys' then i = i + 2 + ARGV[i + 1]
  else i = i + 3 end -- expect-room
  if outcome then
    answered = answered + 1
    reply[answered] = outcome
  end
end
if #joined > 0 then join() end
return reply
