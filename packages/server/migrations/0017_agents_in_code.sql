-- Where a turn waits. An agent in code has a track of its own, which the pods that have it claim; all other agents share one
-- track, which every pod that runs turns claims. A name that is in code and in the directory is answered in code while a
-- live pod has it.
create function fleetline.turn_track(turn_tenant int, turn_agent text) returns int stable language sql as $$
  select k.id
    from fleetline.tracks k join fleetline.queues q on q.id = k.queue
   where q.name = 'turns' and k.machine = 'turn'
     and (k.shape = 'session'
          or k.shape = 'code:' || turn_agent
             and (exists (select from fleetline.pods p where p.state = 'live' and k.id = any (p.tracks))
                  or not exists (select from fleetline.agents a where a.tenant = turn_tenant and a.name = turn_agent)))
   order by k.shape = 'session' limit 1 $$;

-- The leader ends turns whose time is over and that no pod runs: it walks from the oldest on.
create index turns_open on fleetline.turns (started_at) where ended_at is null;
