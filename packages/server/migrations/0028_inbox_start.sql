-- pods from: 17
-- Counts what members had when the inbox was added as read. It has its own file, because it takes a while and must not hold the strong
-- locks of 0027. Until it commits, it locks the rows of all members; while the index is built, nobody can write to the table. A session
-- that gets a message meanwhile may have a later day already.
update fleetline.members m
   set day = greatest(m.day, (s.updated_at at time zone 'UTC')::date), read = greatest(m.read, s.head),
       seen_epoch = greatest(m.seen_epoch, case when s.turn is null then s.epoch else s.epoch - 1 end)
  from fleetline.sessions s where s.tenant = m.tenant and s.id = m.session;
create index members_day on fleetline.members (tenant, user_id, archived, day desc, session);
