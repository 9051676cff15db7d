
-- Logs: each is one list. What is written here is explained in operations.lua.

--- append: log, texts
--- probe
--@ is a log
--@ log may come
--- apply
--@ append
--@ tell extent

--- reset-log: log, texts
--- probe
--@ is a log
--@ log may come
--- apply
if writes and log.length > 0 then
  call('UNLINK', log.list)
  log.first, log.length = log.first + log.length, 0
  call('HSET', meta, log.field, log.first)
end
--@ append
--@ tell extent

--- read: log, limit backwards, number max_records, number max_bytes
--- probe
--@ is a log
--- apply
local low, high = 0, math.min(log.length, max_records) - 1
if backwards == 1 then
  high = log.length - 1
  low = math.max(0, high - max_records + 1)
end
--@ range

--- overflow: log, limit most, limit keep, limit max_records, limit max_bytes
--- probe
--@ is a log
--- apply
local low, high, backwards = 0, -1, 0
if log.length > most then high = math.min(log.length - keep, max_records) - 1 end
--@ range

--- read-at: log, number max_bytes, texts
--- probe
--@ is a log
--- apply
-- Of each span a position and a count.
reply[said + 1], reply[said + 2], reply[said + 3] = log.first or 0, log.length, 0
local spans_at, bytes, left, step = said + 3, 0, MOST_RECORDS, FIRST_STEP
said = spans_at
for j = from, from + count - 1, 2 do
  local low = ARGV[j] - (log.first or 0)
  local high = math.min(low + ARGV[j + 1], log.length) - 1
  low = math.max(low, 0)
  if low <= high and left > 0 then
    local span_at, found = said + 2, 0
    reply[said + 1], reply[span_at] = log.first + low, 0
    while low <= high and left > 0 do
      local chunk = call('LRANGE', log.list, low, math.min(high, low + math.min(step, left) - 1))
      for k = 1, #chunk do
        bytes = bytes + #chunk[k]
        if bytes > max_bytes and left < MOST_RECORDS then
          left = 0
          break
        end
        found, left = found + 1, left - 1
        reply[span_at + found] = chunk[k]
      end
      low, step = low + #chunk, math.min(2 * step, LAST_STEP)
      if #chunk == 0 then break end
    end
    if found > 0 then
      reply[span_at] = found
      reply[spans_at] = reply[spans_at] + 1
      said = span_at + found
    else reply[said + 1], reply[span_at] = nil, nil end
  end
end

--- replace-oldest: log, number most, texts
--- probe
--@ is a log
if not repeated and count > log.length then return { TOO_MANY_RECORDS, now, sub(log.field, 5) } end
--- apply
local replaced = math.min(most, log.length)
if writes and replaced > 0 then
  -- The new ones in the places of the last of the old: the list is never empty in between.
  for j = 1, count do call('LSET', log.list, replaced - count + j - 1, ARGV[from + j - 1]) end
  if replaced > count then
    call('LTRIM', log.list, replaced - count, -1)
    log.first, log.length = log.first + replaced - count, log.length - replaced + count
    call('HSET', meta, log.field, log.first)
  end
end
--@ tell extent

--- rewrite: log, texts
--- probe
--@ is a log
-- Of each record its position and its text.
for j = from, repeated and 0 or from + count - 1, 2 do
  local index = ARGV[j] - (log.first or 0)
  if index < 0 or index >= log.length then return { INVALID_POSITION, now, sub(log.field, 5) } end
end
--- apply
for j = from, writes and from + count - 1 or 0, 2 do call('LSET', log.list, ARGV[j] - log.first, ARGV[j + 1]) end
--@ tell extent

--- fragment is a log
if log.is_wrong then return { WRONG_TYPE, now, sub(log.field, 5) } end

--- fragment log may come
if count > 0 and not log.named and log.length == 0 and not repeated then coming = coming + 1 end

--- fragment append
if writes and count > 0 then
  if not log.first then
    call('UNLINK', log.list)
    call('HSET', meta, log.field, 0)
    log.first = 0
  end
  local was_empty = log.length == 0
  for first = from, from + count - 1, 4000 do
    log.length = call('RPUSH', log.list, unpack(ARGV, first, math.min(first + 3999, from + count - 1)))
  end
  if was_empty and expires > 0 then call('PEXPIREAT', log.list, expires) end
end

--- fragment tell extent
reply[said + 1], reply[said + 2] = log.first or 0, log.length
said = said + 2

--- fragment range
-- The records from index `low` to `high`, from the newer end on if `backwards`: where the log stands, the position
-- of the first, how many they are, and those, oldest first.
local begins, ends, found, bytes, step, chunk = low, high, 0, 0, FIRST_STEP, nil
reply[said + 1], reply[said + 2], reply[said + 3], reply[said + 4] = log.first or 0, log.length, 0, 0
while low <= high and bytes <= max_bytes do
  -- In steps, short ones first: what is over the limit is not read to its end.
  if backwards == 1 then
    chunk = call('LRANGE', log.list, math.max(low, high - step + 1), high)
    high = high - step
  else
    chunk = call('LRANGE', log.list, low, math.min(high, low + step - 1))
    low = low + step
  end
  step = math.min(2 * step, LAST_STEP)
  local size = #chunk
  for j = 1, size do
    local record = chunk[backwards == 1 and size + 1 - j or j]
    bytes = bytes + #record
    if bytes > max_bytes and found > 0 then break end
    found = found + 1
    reply[said + 4 + found] = record
  end
end
if backwards == 1 then
  begins = ends + 1 - found
  for j = 1, found / 2 do
    local a, b = said + 4 + j, said + 5 + found - j
    reply[a], reply[b] = reply[b], reply[a]
  end
end
reply[said + 3], reply[said + 4] = (log.first or 0) + (found > 0 and begins or log.length), found
said = said + 4 + found
