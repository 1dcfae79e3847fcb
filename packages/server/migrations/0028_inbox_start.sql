-- pods from: 17
-- What members had when the inbox was added counts as read. A file of its own, because it takes a while and needs no lock on a table. A
-- session that gets a message meanwhile has a later day already.
update fleetline.members m
   set day = greatest(m.day, (s.updated_at at time zone 'UTC')::date), read = greatest(m.read, s.head),
       seen_epoch = greatest(m.seen_epoch, case when s.turn is null then s.epoch else s.epoch - 1 end)
  from fleetline.sessions s where s.tenant = m.tenant and s.id = m.session;
create index members_day on fleetline.members (tenant, user_id, archived, day desc, session);
