-- oldest: 1
-- When a server dies, the others notice only after many seconds, and until then wait for it. With
-- this, a read that takes so long is asked of another copy too. By default it is asked when it takes
-- longer than most did, which begins at half of the time after which it fails.
ALTER TABLE duetime.timers WITH speculative_retry = '100ms';
ALTER TABLE duetime.shards WITH speculative_retry = '100ms';
ALTER TABLE duetime.records WITH speculative_retry = '100ms';
