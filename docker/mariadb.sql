-- What Debezium needs, and a table; change it and watch its mirror follow.
CREATE DATABASE shop;
CREATE USER 'chain'@'%' IDENTIFIED BY 'throw-away';
GRANT ALL ON *.* TO 'chain'@'%';
CREATE TABLE shop.products (id bigint UNSIGNED PRIMARY KEY, name varchar(100) NOT NULL, price decimal(8, 2), stock int);
INSERT INTO shop.products SELECT seq, CONCAT('Product ', seq), seq * 0.5, seq FROM seq_1_to_100;
