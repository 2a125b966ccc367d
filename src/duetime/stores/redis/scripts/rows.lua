-- How timers lie in Redis. All sorted sets are in the order of their members, and so have no scores.
local prefix = ARGV[1] .. ':'
local DUE = prefix .. 'due'        -- when it wakes, id, version, weight, whether it is claimed
local DONE = prefix .. 'done'      -- when it was finished, id
local OUTLIVED = prefix .. 'outlived'  -- when its own retention is over, id, version
local IDS = prefix .. 'ids'        -- id
local EVENTS = prefix .. 'events'  -- id, the event
local AUDIT = prefix .. 'audit'    -- id of a line of the audit, tenant

local function row_of(id) return prefix .. 'timer:' .. id end
local function log_of(id) return prefix .. 'log:' .. id end
local function owner_of(key) return prefix .. 'key:' .. key end
local function ids_of(tenant) return prefix .. 'tenant:' .. tenant end
local function audit_of(tenant) return prefix .. 'audit:' .. tenant end

-- Let a timer stand in an index in another place, or in none: ''.
local function move(index, old, new)
  if old == new then return end
  if old and old ~= '' then redis.call('ZREM', index, old) end
  if new ~= '' then redis.call('ZADD', index, 0, new) end
end

-- Attempts, events and lines of the audit are JSON behind what they are told apart by: a name, then a brace, and '~' is
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

-- Drop a timer that is there, with all that is its own.
local function drop(id)
  local row = redis.call('HMGET', row_of(id), 'due', 'done', 'outlived', 'key', 'tenant')
  redis.call('UNLINK', row_of(id), log_of(id), owner_of(row[4]))
  redis.call('ZREM', IDS, id)
  redis.call('ZREM', ids_of(row[5]), id)
  move(DUE, row[1], '')
  move(DONE, row[2], '')
  move(OUTLIVED, row[3], '')
end

-- Rows of timers, of one tenant or of all: '', until they weigh enough; the last one may be as heavy as it likes.
local function rows(ids, heaviest, tenant)
  local found, weight = {}, 0
  for place, id in ipairs(ids) do
    local name = row_of(id)
    local is_asked_for = tenant == '' or redis.call('HGET', name, 'tenant') == tenant
    local row = is_asked_for and redis.call('HMGET', name, 'rest', 'spec')
    found[place] = row and row[1] and row
    weight = weight + (found[place] and #row[1] + #row[2] or 0)
    if weight >= heaviest then break end
  end
  return found
end

-- Which shards are asked for: a 1 for each of them; the shard of an id stands in its middle.
local function is_of(shards, id)
  return shards:byte(tonumber(id:sub(16, 18), 16) + 1) == 49
end
