-- put_record: stores a document, or ('') removes it, if its stored version ('' for none) is the old
-- one's; 1 or 0. A document begins with its version.
local kind, name, old, new = prefix .. 'record:' .. ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local stored = redis.call('HGET', kind, name)
if (stored and stored:match('^%d+') or '') ~= old then return 0 end
if new == '' then redis.call('HDEL', kind, name) else redis.call('HSET', kind, name, new) end
return 1
