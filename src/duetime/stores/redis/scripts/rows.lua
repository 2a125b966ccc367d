-- How timers lie in Redis. All sorted sets are in the order of their members, and so have no scores.
local prefix = ARGV[1] .. ':'
local DUE = prefix .. 'due'        -- when it wakes, id, version, weight, whether it is claimed
local DONE = prefix .. 'done'      -- when it was finished, id
local IDS = prefix .. 'ids'        -- id
local EVENTS = prefix .. 'events'  -- id, the event

local function row_of(id) return prefix .. 'timer:' .. id end
local function log_of(id) return prefix .. 'log:' .. id end
local function owner_of(key) return prefix .. 'key:' .. key end
local function ids_of(tenant) return prefix .. 'tenant:' .. tenant end

-- Let a timer stand in an index in another place, or in none: ''.
local function move(index, old, new)
  if old == new then return end
  if old and old ~= '' then redis.call('ZREM', index, old) end
  if new ~= '' then redis.call('ZADD', index, 0, new) end
end

-- Attempts and events are JSON behind what they are told apart by: a name, then a brace, and '~' is
-- behind every brace.
local function forget(index, name)
  redis.call('ZREMRANGEBYLEX', index, '[' .. name .. '{', '(' .. name .. '~')
end

local function tell(index, lines)
  for _, line in ipairs(lines) do
    forget(index, line[1])
    redis.call('ZADD', index, 0, line[1] .. line[2])
  end
end

-- Rows of timers until they weigh enough; the last one may be as heavy as it likes.
local function rows(ids, heaviest)
  local found, weight = {}, 0
  for place, id in ipairs(ids) do
    local row = redis.call('HMGET', row_of(id), 'rest', 'spec')
    found[place] = row[1] and row
    weight = weight + (row[1] and #row[1] + #row[2] or 0)
    if weight >= heaviest then break end
  end
  return found
end

-- Which shards are asked for: a 1 for each of them; the shard of an id stands in its middle.
local function is_of(shards, id)
  return shards:byte(tonumber(id:sub(16, 18), 16) + 1) == 49
end
