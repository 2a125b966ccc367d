-- purge: drops finished timers of these shards that stand behind one place and before another; how
-- many, and where to go on. What was begun anew does not stand there any more.
local shards, behind, to, limit, most = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
local lines = redis.call('ZRANGEBYLEX', DONE, '(' .. behind, '(' .. to, 'LIMIT', 0, most)
local dropped = 0
for _, line in ipairs(lines) do
  local id = line:sub(17)
  if dropped == limit then break end
  if is_of(shards, id) then
    local row = redis.call('HMGET', row_of(id), 'due', 'key', 'tenant')
    redis.call('UNLINK', row_of(id), log_of(id), owner_of(row[2]))
    redis.call('ZREM', IDS, id)
    redis.call('ZREM', ids_of(row[3]), id)
    redis.call('ZREM', DONE, line)
    move(DUE, row[1], '')
    dropped = dropped + 1
  end
end
return {dropped, dropped < limit and #lines == most and lines[most] or ''}
