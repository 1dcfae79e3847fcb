-- pods from: 17
-- Tokens of users are stored nowhere. This table ends those that were issued to a user until `cut_at`. Pods read what is new.
create table fleetline.token_cuts (
  tenant int not null,
  user_id text not null,
  cut_at timestamptz not null,
  primary key (tenant, user_id));
create index on fleetline.token_cuts (cut_at);
