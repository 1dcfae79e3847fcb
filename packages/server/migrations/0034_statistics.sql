-- pods from: 17
-- ANALYZE stores common values of each column in pg_statistic, up to 1,024 bytes each, where an erasure does not reach them. So columns of
-- what people say have no statistics. No plan needs them: rows are found by other columns, and an alias by a unique index. ANALYZE leaves
-- old statistics of such a column as they are, so they are removed here. Before PostgreSQL 18 only a superuser can do that. Otherwise the
-- column keeps statistics of the lowest size, one common value and two bounds, and the next ANALYZE replaces these. Nothing here keeps
-- anybody from reading or writing.
-- This lock keeps nobody from reading or writing, so the wait for a vacuum may be longer than that for other locks.
set local lock_timeout = '30s';
do $$
declare
  t text;
  c text;
begin
  for t, c in values ('messages', 'id'), ('messages', 'author'), ('messages', 'body'), ('messages', 'digest'), ('sessions', 'title'), ('sessions', 'alias'),
                     ('sessions', 'metadata'), ('summaries', 'text'), ('turns', 'error'), ('chunks', 'body'), ('erasures', 'user_id')
  loop
    execute format('alter table fleetline.%I alter column %I set statistics 0', t, c);
    if not exists (select from pg_stats where schemaname = 'fleetline' and tablename = t and attname = c) then
      continue;
    elsif current_setting('server_version_num')::int >= 180000 then
      perform pg_clear_attribute_stats('fleetline', t, c, false);
    elsif (select rolsuper from pg_roles where rolname = current_user) then
      delete from pg_statistic s using pg_attribute a
       where s.starelid = format('fleetline.%I', t)::regclass and a.attrelid = s.starelid and a.attnum = s.staattnum and a.attname = c;
    else
      execute format('alter table fleetline.%I alter column %I set statistics 1', t, c);
      execute format('analyze fleetline.%I (%I)', t, c);
    end if;
  end loop;
end $$;

-- The epoch of the last turn whose error was looked at when messages were erased, so that the next erasure looks at later turns only. An
-- index of errors would be built by reading all turns, while nobody can write. Last, because it takes a strong lock.
set local lock_timeout = '2s';
alter table fleetline.sessions add column errors_erased int not null default 0;
