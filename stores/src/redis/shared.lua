-- What several scripts have in common: `--@ NAME` stands for the fragment of that name. Put in by script.rs, as are
-- the numbers whose names are in capitals.

--- fragment only keys
-- Of the `names`, those that are keys: nothing keeps others from putting something else there.
do
  local all, count = names, 0
  names = {}
  for j = 1, #all do
    local name = all[j]
    if string.find(name, '^[A-Za-z0-9_.%-]+$') and #name <= 256
      and (byte(name) ~= UNDERSCORE or not (string.find(name, '^__') and string.find(name, '__$'))) then
      count = count + 1
      names[count] = name
    end
  end
end

--- fragment if its own
-- What has that `name` in the set of keys is the bucket's own value, whether or not it is a key of ours: neither
-- bookkeeping, nor behind another colon, where a store with a longer prefix may be.
if not string.find(name, ':', 1, true)
  and (byte(name) ~= UNDERSCORE or not (string.find(name, '^__') and string.find(name, '__$'))) then

--- fragment forget writers
-- A writer that is new here. A stamp can be forgotten when its deadline is over: whatever carries it is refused
-- for being late. One further ahead than any deadline is from before somebody set the clock back. A few at
-- random are looked at, so that a call costs the same however many there are, and more are forgotten than come
-- as long as a quarter can be; as long as they are few, none is. `known` counts the expiry, too.
known, forgotten = call('HLEN', writers), {}
if known > FEW_WRITERS then
  local some = call('HRANDFIELD', writers, known > MOST_WRITERS and '-64' or '-4', 'WITHVALUES')
  for j = 1, #some, 2 do
    local ends = tonumber(string.match(some[j + 1], '%.(%d+)$')) or 0
    if some[j] ~= '~' and (ends + SPARE_MS < now or ends > now + WRITERS_LIFE_MS) then
      forgotten[#forgotten + 1] = some[j]
    end
  end
end
