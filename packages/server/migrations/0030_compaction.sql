-- pods from: 17
-- asked_from: the seq of the first message that may ask for this turn's reply. The agent's window keeps this message and all later ones.
alter table fleetline.turns add column asked_from int;

-- Compaction: a summary stands for the messages up to a seq. The messages stay as they are.
-- compacting: the compaction under way, which is also the id of its task. summarised: the seq up to which the newest summary reaches.
-- next_try_seq: after a failure, the seq from which on there is another try.
alter table fleetline.sessions
  add column compacting uuid,
  add column summarised int not null default 0,
  add column next_try_seq int not null default 0;

create table fleetline.summaries (
  at timestamptz not null default now(),
  session uuid not null,
  tenant int not null,
  upto int not null,
  text text not null,
  primary key (tenant, session, upto));

-- As turns, compactions wait on the track of the pods that have their agent: in their code, or any pod that runs turns.
insert into fleetline.tracks (queue, machine, shape, max_attempts, is_internal)
  select id, 'compact', 'session', 32767, true from fleetline.queues where name = 'turns';
create function fleetline.compact_track(agent_tenant int, agent_name text) returns int stable language sql as $$
  select k.id
    from fleetline.tracks k join fleetline.queues q on q.id = k.queue
   where q.name = 'turns' and k.machine = 'compact'
     and (k.shape = 'session'
          or k.shape = 'code:' || agent_name
             and (exists (select from fleetline.pods p where p.state = 'live' and k.id = any (p.tracks))
                  or not exists (select from fleetline.agents a where a.tenant = agent_tenant and a.name = agent_name)))
   order by k.shape = 'session' limit 1 $$;
