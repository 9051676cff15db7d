-- One transaction on one bucket, all or none. See wit/key-value.wit for what it promises and
-- store/redis/codec.rs for how requests and replies are written.
--
-- Three steps: open the bucket; probe whatever the operations will touch (types, counters, positions,
-- expectations); then write. Nothing before the first write can leave a trace, and nothing after it can
-- fail: the first write is one that Redis refuses when it is out of memory or read-only.
--
-- No functions: they are made anew in every run, and cost as much as a call. WRITERS_LIFE_MS and
-- REMEMBERED_WRITERS are put in by script.rs.

local meta, keys, writers, registry = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
-- Each argument costs Redis as much as a step of a loop, so there are few: the flags are the opening plus 4 if
-- anything is written, 8 if the time to live slides, 16 if the set of all keys is touched.
local writer, sequence, deadline, flags, wanted = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local opening, writes, sliding, whole = flags % 4, flags % 8 >= 4, flags % 16 >= 8, flags >= 16
local log_count = tonumber(ARGV[6])
local key_count = tonumber(ARGV[7 + log_count])
local base = string.sub(meta, 1, -9) -- without `__meta__`
local call, try, byte = redis.call, redis.pcall, string.byte
local UNDERSCORE = 95

-- Openings, statuses and failures, as codec.rs numbers them.
local LIFE, CREATE, CREATE_NEW = 1, 2, 3 -- 0: whatever is there
local APPLIED, REPEATED, ABSENT, EXPIRED, EXISTS, ANOTHER_LIFE, UNMET = 0, 1, 2, 3, 4, 5, 6
local WRONG_TYPE, NOT_A_COUNTER, COUNTER_OVERFLOW, INVALID_POSITION, TOO_MANY_RECORDS, LATE = 10, 11, 12, 13, 14, 15

-- Step 1: open. ------------------------------------------------------------------------------------

local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local fields
if log_count == 0 then fields = try('HMGET', meta, 'created_at', 'sliding_ms')
elseif log_count == 1 then fields = try('HMGET', meta, 'created_at', 'sliding_ms', 'log:' .. ARGV[7])
else
  fields = try('HMGET', meta, 'created_at', 'sliding_ms')
  for from = 1, fields.err and 0 or log_count, 4000 do -- Lua's unpack ends at about 8000
    local names, to = {}, math.min(from + 3999, log_count)
    for i = from, to do names[i - from + 1] = 'log:' .. ARGV[6 + i] end
    local replaced = call('HMGET', meta, unpack(names))
    for i = from, to do fields[2 + i] = replaced[i - from + 1] end
  end
end
if fields.err then return { WRONG_TYPE, now, '__meta__' } end
local expires = try('PEXPIRETIME', meta)
if type(expires) == 'table' then -- before Redis 7
  expires = call('PTTL', meta)
  if expires >= 0 then expires = now + expires end
end
local exists = expires == -1 or expires > now
local incarnation = fields[1] or ''

local creates = not exists and opening >= CREATE
local repeated, writers_expire = false, 0
if writes or creates or opening == CREATE_NEW then
  if deadline > 0 and now > deadline then return { LATE, now, '' } end
  local seen = try('HMGET', writers, writer, '~')
  if seen.err then return { WRONG_TYPE, now, '__writers__' } end
  -- `sequence.milliseconds`: as a number it is at least the sequence, and less than the next.
  repeated = seen[1] and tonumber(seen[1]) >= sequence
  writers_expire = tonumber(seen[2] or 0)
end

if not exists and (repeated or not creates) then
  local prefix = string.sub(registry, 1, -13) -- without `__sessions__`
  local listed = try('SREM', registry, string.sub(base, #prefix + 1, -2))
  if type(listed) == 'table' then return { WRONG_TYPE, now, '__sessions__' } end
  return { (listed == 1 or expires ~= -2) and EXPIRED or ABSENT, now, 0, '' }
end
if opening == CREATE_NEW and exists and not repeated then return { EXISTS, now, 0, incarnation } end
if opening == LIFE and wanted ~= incarnation then return { ANOTHER_LIFE, now, 0, incarnation } end

-- Step 2: probe. -----------------------------------------------------------------------------------
-- `member` knows the bucket's keys as far as they matter; `length` and `first` its logs, a log that the
-- meta-data do not know having no first.

local member, length, first = {}, {}, {}
for i = 1, log_count do
  local name = ARGV[6 + i]
  length[name] = 0
  -- The original's log is known without being named; any other is what the meta-data say it is.
  first[name] = tonumber(fields[2 + i] or (name == 'history' and 0))
  if exists and first[name] then
    local records = try('LLEN', base .. '__' .. name .. '__')
    if type(records) == 'table' then return { WRONG_TYPE, now, name } end
    length[name] = records
  end
end

local first_operation, last = 8 + log_count + key_count, #ARGV
if exists then
  local done = 0
  while done < key_count do
    local count = math.min(key_count - done, 4000)
    local from = 8 + log_count + done
    local answers = try('SMISMEMBER', keys, unpack(ARGV, from, from + count - 1))
    if answers.err then return { WRONG_TYPE, now, '__keys__' } end
    for j = 1, count do member[ARGV[from + j - 1]] = answers[j] == 1 end
    done = done + count
  end
  if whole and type(try('SCARD', keys)) == 'table' then return { WRONG_TYPE, now, '__keys__' } end
end

local i = first_operation
while i <= last do
  local operation = ARGV[i]
  if operation == 'put' then
    if exists and type(try('STRLEN', base .. ARGV[i + 1])) == 'table' then return { WRONG_TYPE, now, ARGV[i + 1] } end
    i = i + 3
  elseif operation == 'increment' then
    if exists and not repeated then
      local key, amount = ARGV[i + 1], ARGV[i + 2]
      local value = try('GET', base .. key)
      if type(value) == 'table' then return { WRONG_TYPE, now, key } end
      if not value then member[key] = false
      elseif member[key] then
        local negative = byte(value) == 45
        local digits = negative and string.sub(value, 2) or value
        if not string.find(digits, '^%d+$') or #digits > 19 or (byte(digits) == 48 and value ~= '0')
          or (#digits == 19 and digits > (negative and '9223372036854775808' or '9223372036854775807')) then
          return { NOT_A_COUNTER, now, key }
        end
        -- Lua's numbers are exact up to 2^53 only, so large digits are added in two halves.
        if (#digits > 15 or #amount > 15) and negative == (byte(amount) == 45) then
          local added = negative and string.sub(amount, 2) or amount
          digits, added = string.rep('0', 19 - #digits) .. digits, string.rep('0', 19 - #added) .. added
          local low = string.sub(digits, 11) + string.sub(added, 11)
          local high = string.sub(digits, 1, 10) + string.sub(added, 1, 10) + math.floor(low / 1e9)
          if high > 9223372036 or (high == 9223372036 and low % 1e9 > (negative and 854775808 or 854775807)) then
            return { COUNTER_OVERFLOW, now, key }
          end
        end
      end
    end
    i = i + 3
  elseif operation == 'append' then i = i + 3 + ARGV[i + 2]
  elseif operation == 'overflow' or operation == 'read' then i = i + 6
  elseif operation == 'expect-room' then
    if not repeated and not member[ARGV[i + 1]] then
      local held = exists and call('SCARD', keys) or 0
      if held >= tonumber(ARGV[i + 2]) then return { UNMET, now, 0, incarnation } end
    end
    i = i + 3
  elseif operation == 'get-all' then i = i + 3
  elseif operation == 'get' then
    if member[ARGV[i + 1]] and type(try('STRLEN', base .. ARGV[i + 1])) == 'table' then
      return { WRONG_TYPE, now, ARGV[i + 1] }
    end
    i = i + 3
  elseif operation == 'remove' or operation == 'count' or operation == 'list-keys' or operation == 'remove-all' then
    i = i + 2
  elseif operation == 'replace-oldest' then
    if not repeated and tonumber(ARGV[i + 3]) > length[ARGV[i + 1]] then return { TOO_MANY_RECORDS, now, ARGV[i + 1] } end
    i = i + 4 + ARGV[i + 3]
  elseif operation == 'rewrite' then
    local index = ARGV[i + 2] - (first[ARGV[i + 1]] or 0)
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
          if byte(name) ~= UNDERSCORE or not string.find(name, '^__.*__$') then
            if not expected[name] then return { UNMET, now, 0, incarnation } end
            held = held + 1
          end
        end
      end
      for _ in pairs(expected) do held = held - 1 end
      if held ~= 0 then return { UNMET, now, 0, incarnation } end
    end
    i = i + 2 + count
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
  local is_new
  if writers_expire < now + WRITERS_LIFE_MS / 2 then
    is_new = call('HSET', writers, writer, sequence .. '.' .. now, '~', now + WRITERS_LIFE_MS) > 0
    call('PEXPIREAT', writers, now + WRITERS_LIFE_MS)
  else
    is_new = call('HSET', writers, writer, sequence .. '.' .. now) > 0
  end
  if is_new and call('HLEN', writers) > REMEMBERED_WRITERS + 1 then
    -- Forget the older half at once, so that this is rare however many writers come and go.
    local all, times = call('HGETALL', writers), {}
    for j = 1, #all, 2 do
      if all[j] ~= '~' then times[#times + 1] = { all[j], tonumber(string.match(all[j + 1], '%.(%d+)$') or 0) } end
    end
    table.sort(times, function(a, b) return a[2] > b[2] end)
    for j = math.floor(REMEMBERED_WRITERS / 2) + 1, #times do
      if times[j][1] ~= writer then call('HDEL', writers, times[j][1]) end
    end
  end
end

if creates then
  -- What an earlier life left behind, found by its key set, whatever it is.
  local leftovers = { meta, keys, base .. '__history__' }
  for j = 1, log_count do leftovers[#leftovers + 1] = base .. '__' .. ARGV[6 + j] .. '__' end
  local names = try('SMEMBERS', keys)
  if not names.err then
    for _, name in ipairs(names) do
      -- Not the writers: they outlive a bucket.
      if byte(name) ~= UNDERSCORE or not string.find(name, '^__.*__$') then leftovers[#leftovers + 1] = base .. name end
    end
  end
  for from = 1, #leftovers, 4000 do call('DEL', unpack(leftovers, from, math.min(from + 3999, #leftovers))) end
  incarnation, expires = string.format('%s.%06d', time[1], time[2]), -1
  if wanted == '' then
    call('HSET', meta, 'created_at', incarnation, 'ttl_seconds', 'None')
  else
    local seconds = wanted / 1000
    local text = seconds % 1 == 0 and string.format('%.1f', seconds) or string.format('%.14g', seconds)
    expires = now + wanted
    if sliding then call('HSET', meta, 'created_at', incarnation, 'ttl_seconds', text, 'sliding_ms', wanted)
    else call('HSET', meta, 'created_at', incarnation, 'ttl_seconds', text) end
    call('PEXPIREAT', meta, expires)
  end
  local prefix = string.sub(registry, 1, -13) -- without `__sessions__`
  local bucket = string.sub(base, #prefix + 1, -2)
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
      if byte(name) ~= UNDERSCORE or not string.find(name, '^__.*__$') then call('PEXPIREAT', base .. name, expires) end
    end
  end
end

local reply = { repeated and REPEATED or APPLIED, now, creates and 1 or 0, incarnation }
local answered = 4
i = first_operation
while i <= last do
  local operation, outcome = ARGV[i], nil
  if operation == 'put' or operation == 'increment' then
    local key, argument = ARGV[i + 1], ARGV[i + 2]
    local is_new = not member[key]
    if not writes then
      outcome = is_new and operation == 'put' and 1 or 0
      if operation == 'increment' and not is_new then
        local value = try('GET', base .. key)
        if type(value) == 'string' then outcome = value end
      end
    elseif operation == 'increment' and not is_new then
      outcome = call('INCRBY', base .. key, argument)
      if outcome >= 9007199254740992 or outcome <= -9007199254740992 then outcome = call('GET', base .. key) end
    else
      if expires > 0 then call('SET', base .. key, argument, 'PXAT', expires) else call('SET', base .. key, argument) end
      outcome = operation == 'increment' and argument or (is_new and 1 or 0)
      if is_new then
        call('SADD', keys, key)
        if expires > 0 then call('PEXPIREAT', keys, expires) end
        member[key] = true
      end
    end
    i = i + 3
  elseif operation == 'append' then
    local log, count = ARGV[i + 1], tonumber(ARGV[i + 2])
    if writes and count > 0 then
      local list = base .. '__' .. log .. '__'
      if not first[log] then
        call('DEL', list)
        call('HSET', meta, 'log:' .. log, 0)
        first[log] = 0
      end
      for from = 1, count, 4000 do
        call('RPUSH', list, unpack(ARGV, i + 2 + from, i + 2 + math.min(from + 3999, count)))
      end
      if length[log] == 0 and expires > 0 then call('PEXPIREAT', list, expires) end
      length[log] = length[log] + count
    end
    outcome = { first[log] or 0, length[log] }
    i = i + 3 + count
  elseif operation == 'overflow' and length[ARGV[i + 1]] <= tonumber(ARGV[i + 2]) then
    outcome = { first[ARGV[i + 1]] or 0, length[ARGV[i + 1]] }
    i = i + 6
  elseif operation == 'overflow' or operation == 'read' then
    -- The range of both, as indices from the oldest; `backwards` reads from its newer end.
    local log, max_bytes = ARGV[i + 1], tonumber(ARGV[i + 5])
    local from, to, backwards = 0, -1, false
    if operation == 'overflow' then
      to = math.min(length[log] - ARGV[i + 3], tonumber(ARGV[i + 4])) - 1
    elseif ARGV[i + 2] == 'oldest' then
      from = tonumber(ARGV[i + 3])
      to = math.min(length[log], from + ARGV[i + 4]) - 1
    else
      to = length[log] - ARGV[i + 3] - 1
      from, backwards = math.max(0, to - ARGV[i + 4] + 1), true
    end
    local records, bytes, list = {}, 0, base .. '__' .. log .. '__'
    local low, high = from, to
    while low <= high and bytes <= max_bytes do
      -- In steps: what is over the limit is not read to its end.
      local chunk = backwards and call('LRANGE', list, math.max(low, high - 255), high)
        or call('LRANGE', list, low, math.min(high, low + 255))
      for j = 1, #chunk do
        local record = chunk[backwards and #chunk + 1 - j or j]
        bytes = bytes + #record
        if bytes > max_bytes and #records > 0 then break end
        records[#records + 1] = record
      end
      if backwards then high = high - 256 else low = low + 256 end
    end
    local begins = backwards and to + 1 - #records or from
    outcome = { (first[log] or 0) + math.max(0, math.min(begins, length[log])), length[log] }
    for j = 1, #records do outcome[2 + j] = records[backwards and #records + 1 - j or j] end
    i = i + 6
  elseif operation == 'get-all' or operation == 'list-keys' or operation == 'remove-all' then
    local names, reserved = call('SMEMBERS', keys), false
    for j = 1, #names do
      -- What carries a bookkeeping name is no key of ours.
      if byte(names[j]) == UNDERSCORE and string.find(names[j], '^__.*__$') then reserved = true end
    end
    if reserved then
      local held = names
      names = {}
      for j = 1, #held do
        if not string.find(held[j], '^__.*__$') then names[#names + 1] = held[j] end
      end
    end
    local count = #names
    if operation == 'get-all' then
      local max_bytes, bytes, values = tonumber(ARGV[i + 1]), 0, {}
      outcome = { names, values }
      if count > tonumber(ARGV[i + 2]) then outcome = { false, 0, count }
      else
        -- In steps: what is over the limit is not read to its end. A value that was evicted, or is no
        -- string, is nil.
        for from = 1, count, 64 do
          local addresses, to = {}, math.min(from + 63, count)
          for j = from, to do addresses[j - from + 1] = base .. names[j] end
          local step = call('MGET', unpack(addresses))
          for j = from, to do
            local value = step[j - from + 1]
            values[j] = value
            if value then bytes = bytes + #names[j] + #value end
          end
          if bytes > max_bytes then
            outcome = { false, bytes, count }
            break
          end
        end
      end
      i = i + 3
    else
      outcome = { 0 }
      if operation == 'list-keys' or writes then
        if operation == 'remove-all' then
          for from = 1, count, 4000 do
            local addresses, to = {}, math.min(from + 3999, count)
            for j = from, to do addresses[j - from + 1], member[names[j]] = base .. names[j], false end
            call('DEL', unpack(addresses))
            call('SREM', keys, unpack(names, from, to))
          end
        end
        table.sort(names)
        outcome = { count }
        for j = 1, math.min(count, tonumber(ARGV[i + 1])) do outcome[j + 1] = names[j] end
      end
      i = i + 2
    end
  elseif operation == 'get' then
    local key = ARGV[i + 1]
    outcome = {}
    if member[key] then
      local bytes = call('STRLEN', base .. key)
      if bytes > tonumber(ARGV[i + 2]) then outcome = { false, bytes, 1 }
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
        call('HSET', meta, 'log:' .. log, first[log])
      end
    end
    outcome = { first[log] or 0, length[log] }
    i = i + 4 + count
  elseif operation == 'rewrite' then
    local log = ARGV[i + 1]
    if writes then call('LSET', base .. '__' .. log .. '__', ARGV[i + 2] - first[log], ARGV[i + 3]) end
    outcome = { first[log] or 0, length[log] }
    i = i + 4
  elseif operation == 'count' then
    outcome = { first[ARGV[i + 1]] or 0, length[ARGV[i + 1]] }
    i = i + 2
  elseif operation == 'expect-oldest' then i = i + 3 + ARGV[i + 2]
  elseif operation == 'expect-keys' then i = i + 2 + ARGV[i + 1]
  else i = i + 3 end -- expect-room
  if outcome then
    answered = answered + 1
    reply[answered] = outcome
  end
end
return reply
