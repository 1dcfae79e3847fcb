-- Held tasks wait for people, or for a pod that knows their shape. A row stands in it only while it is held.
create index tasks_held on fleetline.tasks (track, id) where state = 'held';

-- As before; a pod of an older release, which does not say what it claims, runs tasks of one handler.
create or replace function fleetline.track_of(queue_name text, machine_name text) returns int stable language sql as $$
  select k.id
    from fleetline.tracks k join fleetline.queues q on q.id = k.queue
   where q.name = queue_name and k.machine = machine_name and k.max_attempts < 32767
   order by exists (select from fleetline.pods p
                     where p.state = 'live' and (k.id = any (p.tracks) or p.tracks is null and k.shape = '')) desc, k.id desc
   limit 1 $$;
