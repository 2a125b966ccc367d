-- migrate: raises the number of an older layout to this one. One that is higher already stays.
-- From 1 to 2: 'outlived' and 'audit' came, of which an older layout just has nothing yet.
local known, name = tonumber(ARGV[2]), prefix .. 'schema'
if tonumber(redis.call('GET', name)) < known then redis.call('SET', name, known) end
