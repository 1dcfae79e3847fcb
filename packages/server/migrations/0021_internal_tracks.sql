-- pods from: 17
-- Only Fleetline writes tasks into an internal track: nobody enqueues into it by name, and the leader moves none of its tasks to another
-- shape. The tracks of turns are internal.
alter table fleetline.tracks add column is_internal boolean not null default false;
update fleetline.tracks set is_internal = true where max_attempts = 32767;

-- Pods of migrations 17 to 20 do not know the column; they mark an internal track by the largest number of attempts.
create function fleetline.mark_internal() returns trigger language plpgsql as $$
begin
  new.is_internal := new.is_internal or new.max_attempts = 32767;
  return new;
end $$;
create trigger mark_internal before insert on fleetline.tracks for each row execute function fleetline.mark_internal();

-- As before, by the new column.
create or replace function fleetline.track_of(queue_name text, machine_name text) returns int stable language sql as $$
  select k.id
    from fleetline.tracks k join fleetline.queues q on q.id = k.queue
   where q.name = queue_name and k.machine = machine_name and not k.is_internal
   order by exists (select from fleetline.pods p
                     where p.state = 'live' and (k.id = any (p.tracks) or p.tracks is null and k.shape = '')) desc, k.id desc
   limit 1 $$;
